"""A log with idempotent and transactional producers through restarts, crashes, power losses, truncations and
compaction: after each step its producer state follows from its batches, and the next batch is appended,
recognized as a duplicate, or refused by Kafka's rules."""

from cleaner_rig import clean
from fake_files import Crash, FakeFiles
from headrace.protocol.errors import KafkaError
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.log.log import Log
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_rig import NOW, append, batch, open_log, read_all
from producer_oracle import (
    Known,
    Truth,
    check_producers,
    end,
    follow,
    idempotent,
    marker_batch,
    transactional,
    truth_of,
    verified,
)

IDS = st.integers(0, 3)
KEYS = {"segment_bytes": 350, "index_interval_bytes": 60}


class ProducersOfALog(RuleBasedStateMachine):
    """A leader's log, which sometimes becomes a follower's."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FakeFiles()
        self.log: Log = None  # type: ignore[assignment]
        self.journal: list[bytes] = []  # every batch up to the end of the log, also compacted ones
        self.was_loaded = False

    @initialize()
    def make(self) -> None:
        self.log = open_log(self.files, **KEYS)

    def truth(self) -> Truth:
        end_offset = self.log.log_end_offset
        self.journal = [data for data in self.journal if read_batch_header(data).next_offset <= end_offset]
        start = read_batch_header(self.journal[-1]).next_offset if self.journal else 0
        if start < end_offset:
            self.journal += read_all(self.log, offset=start)
        return truth_of(self.journal)

    # --- producers --------------------------------------------------------------------------------------

    def known(self, producer_id: int) -> Known:
        return self.truth().producers.get(producer_id, Known())

    @rule(producer_id=IDS, step=st.integers(-6, 2), count=st.integers(1, 2), bump=st.integers(-1, 1))
    def produce(self, producer_id: int, step: int, count: int, bump: int) -> None:
        """Append the next batch, a duplicate, one after a gap, or one of another epoch."""
        known = self.known(producer_id)
        is_new = known.epoch < 0
        epoch = max(known.epoch, 0) + (bump if step in (-1, 0) else 0)
        if epoch < 0:
            return
        follows = known.batches[-1][1] + 1 if known.batches and epoch == known.epoch else 0
        first = max(follows + step, 0)
        if step < 0 and known.batches and -step <= len(known.batches) and epoch == known.epoch:
            first, last, _ = known.batches[step]
            count = last - first + 1
        before = self.log.log_end_offset
        try:
            offset = append(self.log, idempotent(producer_id, first, count, epoch=epoch))
        except KafkaError:
            assert not is_new or known.open_from >= 0, "an unknown producer may begin with any sequence"
            assert known.open_from >= 0 or first != follows or epoch < known.epoch
            assert self.log.log_end_offset == before
            return
        if self.log.log_end_offset == before:
            assert epoch == known.epoch
            assert (first, first + count - 1, offset) in known.batches
        else:
            assert offset == before
            assert known.open_from < 0
            assert is_new or (epoch >= known.epoch and first == follows)

    @rule(producer_id=IDS, is_followed=st.booleans())
    def write_in_a_transaction(self, producer_id: int, is_followed: bool) -> None:
        known = self.known(producer_id)
        epoch = max(known.epoch, 0)
        first = known.batches[-1][1] + 1 if known.batches else 0
        data = transactional(producer_id, first, epoch=epoch)
        if is_followed:
            follow(self.log, data)
        else:
            verified(self.log, data, bumps_epoch=bool(producer_id % 2))

    @rule(producer_id=IDS, is_commit=st.booleans(), is_followed=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool, is_followed: bool) -> None:
        known = self.known(producer_id)
        if known.epoch < 0:
            return
        if is_followed:
            follow(self.log, marker_batch(producer_id, known.epoch + 1, is_commit=is_commit))
        else:
            end(self.log, producer_id, epoch=known.epoch + 1, is_commit=is_commit)

    @rule()
    def write_plainly(self) -> None:
        append(self.log, batch(2))

    # --- the log ----------------------------------------------------------------------------------------

    @rule(back=st.integers(0, 6))
    def commit(self, back: int) -> None:
        self.log.high_watermark = max(self.log.high_watermark, self.log.log_end_offset - back)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(back=st.integers(0, 9))
    def cut(self, back: int) -> None:
        self.was_loaded = True
        self.log.truncate_to(self.cut_offset(back))

    def cut_offset(self, back: int) -> int:
        """Compacted records are committed on all replicas; a truncation removes a producer's later state."""
        end_offset = self.log.log_end_offset
        return max(end_offset - back, 0) if self.log.compaction.cleaner_offset is None else end_offset

    def reopen(self, files: FakeFiles, *, was_clean: bool, recovery_point: int) -> None:
        self.was_loaded = True
        high_watermark = self.log.high_watermark
        self.files = files
        self.log = open_log(
            files,
            was_clean=was_clean,
            recovery_point=recovery_point,
            cleaner_offset=self.log.compaction.cleaner_offset,
            **KEYS,
        )
        self.log.high_watermark = min(high_watermark, self.log.log_end_offset)

    @rule()
    def restart_in_order(self) -> None:
        self.log.close()
        self.reopen(self.files.restart(), was_clean=True, recovery_point=self.log.log_end_offset)

    @rule(seed=st.one_of(st.none(), st.integers(0, 50)))
    def crash(self, seed: int | None) -> None:
        """A kill, or with a seed a power loss."""
        found = self.files.restart() if seed is None else self.files.power_loss(seed)
        self.reopen(found, was_clean=False, recovery_point=self.log.recovery_point)

    @rule(at=st.integers(1, 12), seed=st.one_of(st.none(), st.integers(0, 50)), how=st.sampled_from("rcfs"))
    def crash_inside(self, at: int, seed: int | None, how: str) -> None:
        """Crash during a roll, close, flush or truncation."""
        recovery_point = self.log.recovery_point
        self.files.crash_at = len(self.files.operations) + at
        try:
            if how == "r":
                append(self.log, batch(1))
                self.log.roll(NOW)
            elif how == "c":
                self.log.close()
            elif how == "f":
                self.log.flush()
            else:
                end_offset = self.cut_offset(4)
                recovery_point = min(recovery_point, end_offset)
                self.log.truncate_to(end_offset)
        except Crash:
            pass
        self.files.crash_at = None
        found = self.files.restart() if seed is None else self.files.power_loss(seed)
        self.reopen(found, was_clean=False, recovery_point=recovery_point)

    @precondition(lambda self: len(self.log.segments) > 2)
    @rule()
    def compact(self) -> None:
        """All keys are equal, so most records are removed; the last batch of each producer stays."""
        self.truth()
        clean(self.log)

    @invariant()
    def the_truth_is_known(self) -> None:
        if self.log is not None:
            check_producers(self.log, self.truth(), was_loaded=self.was_loaded)


TestProducersOfALog = ProducersOfALog.TestCase
TestProducersOfALog.settings = settings(max_examples=120, stateful_step_count=25)
