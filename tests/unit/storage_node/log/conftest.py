"""What unit tests of logs share."""

import pytest
from fake_files import FakeFiles
from headrace.storage_node.log.log import Log
from log_rig import open_log


@pytest.fixture
def log(files: FakeFiles) -> Log:
    return open_log(files)
