"""Batches for an answer: out of memory, the page cache, or what a thread has read from a disk meanwhile.

One reader serves the fetches of clients and of followers; it is the only place that reads records for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.header import read_batch_header
from ...runtime.files.file_layer import FileGoneError
from ..effects import AdvisePages, ReadCold
from ..log.tail_cache import kept
from .catch_up import CatchUp
from .cold_reads import MAX_READ_BYTES, ColdRead, ColdReads

if TYPE_CHECKING:
    from ..log.lending import Part
    from ..log.log import Log
    from .catch_up import PageAdvice
    from .partition import Partition
    from .step_output import StepOutput

# Bound: what one answer copies out of the page cache, unless one batch is larger; nobody else is served
# meanwhile. Measured: 0.4 ms of the loop, and 2 MiB take 1.5 ms, which producers see in their p99 and which
# make a reader no faster. Partitions that come away empty are the connection's first next time.
_FILE_BYTES_PER_ANSWER = 512 * 1024


class RecordReader:
    """See the module's docstring."""

    def __init__(
        self,
        output: StepOutput,
        *,
        cold_threads: int,
        cold_max_bytes: int,
        read_ahead_bytes: int,
        max_bytes: int,
    ) -> None:
        self._output = output
        self._max_bytes = max_bytes
        self.cold = ColdReads(self._begin, max_running=cold_threads, max_bytes=cold_max_bytes)
        self.catch_up = CatchUp(read_ahead_bytes)
        self._file_bytes = 0  # what the answer being made may still read from files

    def begin_answer(self) -> None:
        """Another answer is being made: it may read its share of files."""
        self._file_bytes = _FILE_BYTES_PER_ANSWER

    def records(
        self,
        partition: Partition,
        log: Log,
        offset: int,
        upto_offset: int,
        limit: int,
        now_ms: int,
        *,
        session: int,
        asked_bytes: int,
        is_first: bool,
        lends: bool = False,
    ) -> list[Part] | None:
        """Batches from `offset` on, below `upto_offset`, of about `limit` bytes: what a thread has read, or
        from memory, or, to who can send those, as runs that the log `lends`; else None, and a thread is to
        read about `asked_bytes` for this connection.

        Order: the caller has checked that the log holds the offset.
        Errors: CorruptMessageError, KafkaStorageError.
        """
        key = (session, partition.key)
        read = self.cold.find(session, partition, offset, now_ms)
        if read is not None and not read.is_done:
            return None
        if read is not None and read.upto_offset > upto_offset:
            self.cold.drop(read, now_ms)  # it may have more than is to be seen now, with another isolation
        elif read is not None:
            if read.error is not None:
                self.cold.drop(read, now_ms)  # it is told once; the next fetch looks anew
            data = _taken(read, limit, is_first=is_first)
            if not data and read.error is None:
                return []  # it is too large behind what is in this answer already; it stays
            self.cold.drop(read, now_ms)
            if read.run_found is not None:
                brought = read.max_bytes + read.ahead_bytes if read.ahead_bytes else 0
                self._advise(self.catch_up.read(key, read.run_found, brought))
            if data:
                return data
            # else its segment was deleted under the read: look again
        most = self._file_bytes
        # Order: pages that are dropped behind their reader must not be waiting to be sent.
        found = log.reader.read_cached(
            offset,
            limit,
            upto_offset=upto_offset,
            min_one=is_first,
            file_bytes=most,
            lend_except=self.catch_up if lends else None,
        )
        if found is None:
            size = max(min(asked_bytes, self._max_bytes, MAX_READ_BYTES), 0)
            ahead = self.catch_up.ahead_of(key, offset)
            self.cold.ask(ColdRead(session, partition, log, offset, size, upto_offset, ahead), now_ms)
            return None
        if found.run is not None:
            self._file_bytes -= len(found.run.data)
            self._advise(self.catch_up.read(key, found.run))
        return found.data

    def _begin(self, read: ColdRead) -> None:
        self._output.effects.append(ReadCold(read))

    def _advise(self, advice: PageAdvice | None) -> None:
        if advice is not None:
            self._output.effects.append(AdvisePages(advice))


def _taken(read: ColdRead, limit: int, *, is_first: bool) -> list[Part]:
    """What of a read fits into `limit`; the first batch anyway if it `is_first`. Nothing if it was deleted.

    Errors: what the read met.
    """
    if isinstance(read.error, FileGoneError):
        return []
    if read.error is not None:
        raise read.error
    assert read.run_found is not None, "a read that is done has a result or an error"
    data = read.run_found.data
    if len(data) <= limit:
        return [kept(data)]
    end = 0
    while end < len(data):
        size = read_batch_header(data, end).size_bytes
        if end + size > limit and not (is_first and end == 0):
            break
        end += size
    # Bound: what is left out must not stay in memory until a slow peer has taken the little that it gets.
    return [kept(data[:end])] if end else []
