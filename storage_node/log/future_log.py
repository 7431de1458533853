"""The copy of a partition's log in another log dir, on its way to take the log's place.

It is an ordinary log in a folder that ends in `-future`. Steps of copying run on any thread, one at a time;
between two of them its owner looks whether it has caught up. It copies what is committed; the rest comes at
the swap. A log that is cut below what was copied is told with `was_cut`, and the copy is cut as well.
Source: Kafka ReplicaAlterLogDirsThread.java, LogManager.scala replaceCurrentWithFutureLog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from ...protocol.records.header import read_batch_header
from . import names
from .log import Log
from .log_tasks import write_topic_id

if TYPE_CHECKING:
    from .log_dir import LogDir

STEP_BYTES = 1 << 20  # copied by one step; also the most that is copied on the owner's thread at the swap
_UNCUT = 1 << 62


class FutureLog:
    """One copy. Owner: `prepare`, then `run` on any thread, then look at `error` and `is_close`; in the end
    `complete`, or `Log.delete` of `log`.

    Invariant: below its end `log` has what `source` has, but for cuts that `prepare` has not seen.
    """

    def __init__(self, source: Log, target: LogDir, unique: str) -> None:
        self.source = source
        self.target = target
        self.log: Log | None = None
        self.error: KafkaStorageError | CorruptMessageError | InvalidRecordError | None = None
        self.copied_bytes = 0  # by the last step
        folder = names.suffixed_folder(source.topic_partition, unique, names.FUTURE_FOLDER)
        self.directory = f"{target.path}/{folder}"
        self._cut_to = _UNCUT
        self._truncate_to = _UNCUT
        self._upto = 0

    @property
    def end_offset(self) -> int:
        """How far the copy goes."""
        return self.log.log_end_offset if self.log is not None else self.source.log_start_offset

    @property
    def may_go_on(self) -> bool:
        """Whether the log is fit to be copied: not while it is compacted, nor before a follower has put in
        what its log starts with, or has begun anew for a gap that would pass for one of compaction."""
        source = self.source
        is_whole = not source.recovery.has_loss and source.log_start_offset <= source.log_end_offset
        return is_whole and source.compaction.running is None

    @property
    def is_close(self) -> bool:
        """Whether so little is missing that the owner may copy it itself."""
        if self.log is None or self._cut_to != _UNCUT or self.end_offset < self.source.log_start_offset:
            return False
        return self.source.reader.bytes_about(self.end_offset, self.source.log_end_offset) <= STEP_BYTES

    def was_cut(self, end_offset: int) -> None:
        """The log lost what lay from `end_offset` on."""
        self._cut_to = min(self._cut_to, end_offset)

    def prepare(self) -> None:
        """Settle what the next step does."""
        self._truncate_to, self._cut_to = self._cut_to, _UNCUT
        self._upto = self.source.high_watermark
        self.copied_bytes = 0

    def run(self) -> None:
        """Copy up to STEP_BYTES, and bring all to the disk once it has caught up. A failure is kept in
        `error`."""
        try:
            log = self.log or self._open()
            self._align(log)
            while self.copied_bytes < STEP_BYTES and self._copy_piece(log, self._upto):
                pass
            if log.log_end_offset >= self._upto:
                log.flush()
        except OffsetOutOfRangeError:
            pass  # the log's start or end has moved meanwhile: the next step sees it
        except (KafkaStorageError, CorruptMessageError, InvalidRecordError) as error:
            self.error = error

    def complete(self) -> Log:
        """Copy the rest and everything else that belongs to the log; durable on return. Errors:
        KafkaStorageError, CorruptMessageError."""
        log, source = self.log, self.source
        assert log is not None, "a step has opened it"
        self.prepare()
        self._align(log)
        while self._copy_piece(log, source.log_end_offset):
            pass
        log.adopt_state(source)
        log.flush()
        return log

    def _open(self) -> Log:
        source, files = self.source, self.target.files
        files.mkdir(self.directory)
        log = Log.open(
            files,
            self.directory,
            source.config,
            topic_partition=source.topic_partition,
            recovery_point=0,
            was_clean=True,
            log_start_offset=source.log_start_offset,
            wall_ms=0,
        )
        self.log = log
        log.topic_id = source.topic_id
        write_topic_id(files, self.directory, source.topic_id)
        return log

    def _align(self, log: Log) -> None:
        """Follow a source that was cut, or whose start passed what was copied."""
        if self._truncate_to < log.log_end_offset:
            log.truncate_to(self._truncate_to)  # also to before its start: the source has begun anew there
        if log.log_end_offset < self.source.log_start_offset:
            log.truncate_fully_and_start_at(self.source.log_start_offset)

    def _copy_piece(self, log: Log, upto_offset: int) -> bool:
        """One read and its append; False if there is nothing left."""
        offset = log.log_end_offset
        if offset >= upto_offset:
            return False
        for piece in self.source.reader.read(offset, STEP_BYTES, upto_offset=upto_offset).data:
            base_offset = read_batch_header(piece).base_offset
            if base_offset < offset and not log.size_bytes:  # the log starts inside of a batch
                log.truncate_fully_and_start_at(base_offset, log.log_start_offset)
            log.append_as_follower(piece)
            self.copied_bytes += len(piece)
        return log.log_end_offset > offset
