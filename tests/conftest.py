"""What all tests share: the fakes on the import path, and no Ray by accident."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.nodes import Collector

ROOT = Path(__file__).parent.parent

# Before anything imports Ray: no token is written into the developer's home folder.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

# A job in the background of a shell script ignores Ctrl-C, and so would each command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(Path(__file__).parent / "fakes"))
sys.path.insert(0, str(Path(__file__).parent / "sim"))
sys.path.insert(0, str(Path(__file__).parent / "oracle"))
sys.path.insert(0, str(Path(__file__).parent / "fuzz"))


class _RootIsNoTestPackage:
    """The root folder is the package, installed as `headrace`.

    pytest sees its `__init__.py` and would import it once more under the name of the checkout: a second copy
    of everything, and no name at all when the folder is called `headrace-main`.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: Collector) -> Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, because hooks of a conftest are not asked about the folders above it."""
    config.pluginmanager.register(_RootIsNoTestPackage())
