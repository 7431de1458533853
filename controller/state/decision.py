"""A decision: the records to append, and the response that waits until they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...protocol.metadata.records import MetadataRecord


class Decision(NamedTuple):
    """The records are one record batch: they are applied together or not at all."""

    records: tuple[MetadataRecord, ...]
    reply: Any  # the response struct of the request
