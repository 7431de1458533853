"""A read of a coordinator's log on a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.header import Buffer
    from ..log.log import Log
    from .contract import LogPiece


@dataclass(slots=True, eq=False)
class CoordinatorRead:
    """`run` goes on a thread; then `NodeCoordinatorHost.was_read`, which compares `leadership` by
    identity."""

    piece: LogPiece
    leadership: object
    log: Log
    upto_offset: int

    def run(self) -> None:
        """Read and digest; an error is kept in the piece."""
        piece = self.piece
        try:
            data: Sequence[Buffer]
            data, next_offset = self.log.reader.read(
                piece.offset, piece.max_bytes, upto_offset=self.upto_offset
            )
            piece.found = piece.digest(data)
            # no batch below the end: compaction has left a gap
            piece.next_offset = next_offset if data else self.upto_offset
        except KafkaError as error:
            piece.error = error
