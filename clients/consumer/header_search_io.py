"""Records with a header of some name, compiled where the codec is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.records.environment_io import codec_choice

__all__ = ["python_with_header", "with_header"]


def python_with_header(records: list[Any], name: str, start: int) -> list[int]:
    """Positions, from `start` on, of the records with a header of this name."""
    return [
        position
        for position in range(max(start, 0), len(records))
        if any(header[0] == name for header in records[position].headers)
    ]


if TYPE_CHECKING or codec_choice() == "python":
    with_header = python_with_header
else:
    try:
        from ...protocol.records._batch import with_header
    except ModuleNotFoundError:  # not built: `pick_codec` raises the error
        with_header = python_with_header
