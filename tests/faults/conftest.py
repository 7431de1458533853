"""Real faults: which of them run, and where their parts are.

Those marked `faults` take their time, and run when they are asked for: `make faults`, or -m faults.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long ones unless they were asked for."""
    if "faults" in config.option.markexpr:
        return
    long = [item for item in items if item.path.is_relative_to(HERE) and item.get_closest_marker("faults")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]
