"""What a decision is: the records to append, and the reply that waits until they are durable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...protocol.metadata.records import MetadataRecord


class Decision(NamedTuple):
    """The records of one decision stand or fall together: they become one record batch."""

    records: tuple[MetadataRecord, ...]
    reply: Any  # the response struct of the request
