"""Tests of deployments on several machines: minutes long, run by `make deploy-test` or -m deploy."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of this folder unless they are requested."""
    if "deploy" in config.option.markexpr:
        return
    here = [item for item in items if item.path.is_relative_to(HERE)]
    config.hook.pytest_deselected(items=here)
    items[:] = [item for item in items if item not in here]
