"""The future log: a copy of a partition's log in another log dir, which replaces the log when it has caught
up.

It is an ordinary log in a folder that ends in `-future`. Copy steps run on any thread, one at a time; between
steps the owner checks whether the copy has caught up. Steps copy committed records; the rest is copied at the
swap. `source_truncated` reports a truncation of the source, and the copy is truncated as well.
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
_NO_TRUNCATION = 1 << 62


class FutureLog:
    """Owner: `prepare`, then `run` on any thread, then check `error` and `is_close`; at the end `complete`,
    or `Log.delete` of `log`.

    Invariant: below its end `log` equals `source`, unless the source was truncated since the last `prepare`.
    """

    def __init__(self, source: Log, target: LogDir, unique: str) -> None:
        self.source = source
        self.target = target
        self.log: Log | None = None
        self.error: KafkaStorageError | CorruptMessageError | InvalidRecordError | None = None
        self.copied_bytes = 0  # by the last step
        folder = names.suffixed_folder(source.topic_partition, unique, names.FUTURE_FOLDER)
        self.directory = f"{target.path}/{folder}"
        self._reported_truncation = _NO_TRUNCATION
        self._truncate_to = _NO_TRUNCATION
        self._upto = 0

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset if self.log is not None else self.source.log_start_offset

    @property
    def can_copy(self) -> bool:
        """Whether the source can be copied: not while it is compacted, nor while it has lost records or
        starts inside a batch that it does not have yet."""
        source = self.source
        is_whole = not source.recovery.has_loss and source.log_start_offset <= source.log_end_offset
        return is_whole and source.compaction.running is None

    @property
    def is_close(self) -> bool:
        """Whether the rest is small enough to be copied on the owner's thread."""
        if (
            self.log is None
            or self._reported_truncation != _NO_TRUNCATION
            or self.end_offset < self.source.log_start_offset
        ):
            return False
        return self.source.reader.bytes_about(self.end_offset, self.source.log_end_offset) <= STEP_BYTES

    def source_truncated(self, end_offset: int) -> None:
        self._reported_truncation = min(self._reported_truncation, end_offset)

    def prepare(self) -> None:
        self._truncate_to, self._reported_truncation = self._reported_truncation, _NO_TRUNCATION
        self._upto = self.source.high_watermark
        self.copied_bytes = 0

    def run(self) -> None:
        """Copy up to STEP_BYTES, and flush once the copy has caught up. A failure is stored in `error`."""
        try:
            log = self.log or self._open()
            self._align(log)
            while self.copied_bytes < STEP_BYTES and self._copy_piece(log, self._upto):
                pass
            if log.log_end_offset >= self._upto:
                log.flush()
        except OffsetOutOfRangeError:
            pass  # the source was truncated or trimmed meanwhile: the next step handles it
        except (KafkaStorageError, CorruptMessageError, InvalidRecordError) as error:
            self.error = error

    def complete(self) -> Log:
        """Copy the rest of the batches and the state of the log; durable on return. Errors:
        KafkaStorageError, CorruptMessageError."""
        log, source = self.log, self.source
        assert log is not None, "a step has opened the copy"
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
        """Follow a source that was truncated, or whose start offset passed the end of the copy."""
        if self._truncate_to < log.log_end_offset:
            log.truncate_to(self._truncate_to)  # also below its start, if the source was fully truncated
        if log.log_end_offset < self.source.log_start_offset:
            log.truncate_fully_and_start_at(self.source.log_start_offset)

    def _copy_piece(self, log: Log, upto_offset: int) -> bool:
        """Copy one read; False at the end."""
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
