"""Opens the files of the stores of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..state.memory_engine import MemoryEngine

if TYPE_CHECKING:
    from pathlib import Path

    from ..state.engines import Engine


def open_engine(folder: Path, store: str) -> Engine:
    """The files of one store in the folder of its task."""
    return MemoryEngine()
