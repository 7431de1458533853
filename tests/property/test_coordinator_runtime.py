"""A shard under random requests, commits, append errors, lost leaderships and reloads.

Laws: a response is sent only when all records applied before it are committed, and without a lease only after
a record appended for it; each request gets one response; the state always equals a replay of the log, so that
a reload changes nothing; committed records stay.
"""

from typing import Any

from coordinator_rig import CoordinatorRig, Request, batch_of
from headrace.protocol.errors import KafkaError, NotEnoughReplicasError
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import HeartbeatRequest
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.coordinator_records import decode_record
from headrace.protocol.records.header import read_batch_header
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

GROUPS = st.sampled_from(["a", "b", "c"])


class ShardMachine(RuleBasedStateMachine):
    """One partition, one counter; `leads` while this node leads it."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = CoordinatorRig()
        self.rig.host.commits_at_once = False
        self.rig.lead()
        self.epoch, self.leads = 0, True
        self.number = 0
        self.writes: list[tuple[Request, int | None]] = []  # and the end offset of its record
        self.reads: list[tuple[Request, int, str]] = []  # the log end offset, and the expected state
        self.committed: list[bytes] = []

    @property
    def log(self) -> Any:
        return self.rig.host.logs[0]

    def replayed(self) -> dict[str, int]:
        """The state that follows from the log."""
        found: dict[str, int] = {}
        for data in self.log.batches:
            for record in active_codec().decode(data):
                key, value = decode_record(record.key, record.value)  # type: ignore[misc]
                if value is not None:  # None: a record without a change
                    found[key.group] = value.offset
        return found

    @rule(group=GROUPS)
    def write(self, group: str) -> None:
        self.number += 1
        end = self.log.end
        request = self.rig.set(self.number, group)
        self.writes.append((request, self.log.end if self.log.end > end else None))

    @rule(groups=st.lists(GROUPS, min_size=2, max_size=4))
    def write_together(self, groups: list[str]) -> None:
        end, first = self.log.end, self.number + 1
        self.number += len(groups)
        asked = [
            (registry.HEARTBEAT, HeartbeatRequest(group, number, ""))
            for number, group in enumerate(groups, first)
        ]
        requests = self.rig.ask_together(*asked)
        is_written = self.log.end > end
        assert not is_written or self.log.end == end + len(groups)
        for place, request in enumerate(requests, end + 1):
            self.writes.append((request, place if is_written else None))

    @rule(group=GROUPS)
    def read(self, group: str) -> None:
        shown, end = str(self.replayed().get(group)), self.log.end
        request = self.rig.describe(group)
        is_served = not request.answers or not request.answer.groups[0].error_code
        assert not is_served or (self.log.end > end) != self.rig.host.holds_lease
        self.reads.append((request, self.log.end, shown))

    @rule(holds=st.booleans())
    def lease(self, holds: bool) -> None:
        self.rig.host.has_lease = holds

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        log = self.log
        log.high_watermark += int((log.end - log.high_watermark) * part)
        if self.leads:
            self.rig.commit(log.high_watermark)

    @rule(milliseconds=st.sampled_from([1, 2_000, 6_000]))
    def wait(self, milliseconds: int) -> None:
        self.rig.pass_time(milliseconds)

    @rule(refuses=st.booleans())
    def refuse(self, refuses: bool) -> None:
        self.rig.host.refuses = NotEnoughReplicasError("too few") if refuses else None

    @precondition(lambda self: self.leads)
    @rule()
    def lose(self) -> None:
        """Another node leads: uncommitted records may be lost, and it appends its own."""
        self.rig.leave()
        self.leads = False

    @precondition(lambda self: not self.leads)
    @rule(kept=st.integers(0, 5), group=GROUPS, writes=st.booleans())
    def other_leader(self, kept: int, group: str, writes: bool) -> None:
        log = self.log
        whole = [data for data in log.batches if read_batch_header(data).next_offset <= log.high_watermark]
        log.batches = log.batches[: len(whole) + kept]
        log.end = read_batch_header(log.batches[-1]).next_offset if log.batches else 0
        if writes:
            self.number += 1
            self.rig.host.put(0, batch_of((group, self.number)))

    @precondition(lambda self: not self.leads)
    @rule()
    def lead(self) -> None:
        self.epoch += 1
        self.rig.lead(epoch=self.epoch)
        self.leads = True

    @precondition(lambda self: self.rig.host.reads)
    @rule(batches=st.integers(1, 3))
    def load(self, batches: int) -> None:
        self.rig.host.finish_read(batches)

    @invariant()
    def answers_are_committed(self) -> None:
        for request, end in self.writes:
            assert len(request.answers) <= 1
            if request.answers and not isinstance(request.answer, KafkaError):
                assert end is not None
                assert end <= self.log.high_watermark
        for request, end, shown in self.reads:
            assert len(request.answers) <= 1
            if request.answers and not request.answer.groups[0].error_code:
                assert request.answer.groups[0].group_state == shown
                assert end <= self.log.high_watermark
        pending = [write for write in self.writes if not write[0].answers]
        self.writes = pending
        self.reads = [read for read in self.reads if not read[0].answers]

    @invariant()
    def the_state_is_the_log(self) -> None:
        shard = self.rig.shard
        if self.leads and shard.is_loaded:
            assert shard.numbers == self.replayed()

    @invariant()
    def what_is_committed_stays(self) -> None:
        committed = [
            d for d in self.log.batches if read_batch_header(d).next_offset <= self.log.high_watermark
        ]
        assert committed[: len(self.committed)] == self.committed
        self.committed = committed

    def teardown(self) -> None:
        """Each pending request gets a response."""
        if self.leads:
            self.rig.leave()
        assert all(request.answers for request, _ in self.writes)
        assert all(request.answers for request, *_ in self.reads)
        status = self.rig.all.status()
        assert (status["waiting_requests"], status["shards"]) == (0, {})
        assert self.rig.all.next_deadline_ms() is None


TestShard = ShardMachine.TestCase
TestShard.settings = settings(max_examples=80, stateful_step_count=40)
