"""What unit tests of the controller share."""

import pytest
from controller_kit import Driver
from fake_files import FakeFiles


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()
