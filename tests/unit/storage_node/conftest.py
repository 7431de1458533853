"""What unit tests of a storage node share."""

import pytest
from fake_files import FakeFiles


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()
