"""Reads batches for fetch responses: from memory, the page cache, or a finished cold read.

One reader serves the fetches of consumers and of followers.
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

# Bound: bytes that one response copies from the page cache, unless one batch is larger. It blocks the event
# loop, measured: 0.4 ms; 2 MiB take 1.5 ms, which producers see in their p99, and make no reader faster.
# Partitions that get nothing are read first in the connection's next fetch.
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
        self._file_bytes = 0  # left for the present response

    def begin_answer(self) -> None:
        """A new response: reset the bound of bytes from files."""
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
        """Batches from `offset` up to `upto_offset` of about `limit` bytes: from a finished cold read, from
        memory, or with `lends` as runs of the page cache. None: a thread will read about `asked_bytes` for
        this connection.

        Order: the caller has checked that `offset` is in the log.
        Errors: CorruptMessageError, KafkaStorageError.
        """
        key = (session, partition.key)
        read = self.cold.find(session, partition, offset, now_ms)
        if read is not None and not read.is_done:
            return None
        if read is not None and read.upto_offset > upto_offset:
            self.cold.drop(read, now_ms)  # it may have more than another isolation level allows
        elif read is not None:
            if read.error is not None:
                self.cold.drop(read, now_ms)  # reported once; the next fetch reads again
            data = _taken(read, limit, is_first=is_first)
            if not data and read.error is None:
                return []  # too large for the rest of this response; kept for the next
            self.cold.drop(read, now_ms)
            if read.run_found is not None:
                brought = read.max_bytes + read.ahead_bytes if read.ahead_bytes else 0
                self._advise(self.catch_up.read(key, read.run_found, brought))
            if data:
                return data
            # else its segment was deleted during the read: read again
        most = self._file_bytes
        # Order: pages that are dropped behind their reader must not be queued for sending.
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
    """The batches of a read that fit into `limit`; with `is_first` the first one in any case. Nothing if the
    segment was deleted. Errors: the error of the read.
    """
    if isinstance(read.error, FileGoneError):
        return []
    if read.error is not None:
        raise read.error
    assert read.run_found is not None, "a finished read has a result or an error"
    data = read.run_found.data
    if len(data) <= limit:
        return [kept(data)]
    end = 0
    while end < len(data):
        size = read_batch_header(data, end).size_bytes
        if end + size > limit and not (is_first and end == 0):
            break
        end += size
    # Bound: copied, so that a slow peer does not keep the whole read in memory.
    return [kept(data[:end])] if end else []
