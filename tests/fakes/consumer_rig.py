"""Records out of a handout, without an engine and its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.clients.consumer.handout import Handout


def taken(handout: Handout, most: int) -> list[Any]:
    """Up to `most` records in the user's hands; an error behind some is left for the next call."""
    records: list[Any] = []
    while (chunk := handout.take(records, most)) is not None:
        try:
            handout.prepare(chunk)
        except Exception:
            if not records:
                raise
            break
    handout.handed_out(len(records))
    return records
