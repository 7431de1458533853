"""What the tests share that need Ray and kill none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace_command import Headrace

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray, which takes ten seconds to start: each test has a cluster of its own on it."""
    with Headrace(tmp_path_factory.mktemp("ray")).running_ray() as address:
        yield address
