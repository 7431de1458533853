"""While a log changes under slow disks, every fetch response is a valid range below the high watermark."""

from typing import Any

import hypothesis.strategies as st
from core_rig import CoreRig, FakePeer, FakeRequest
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from headrace.storage_node.effects import AdvisePages, ReadCold
from headrace.storage_node.replica.fetch import COLD_WAIT_MS
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from node_rig import batch, values_of

PARTITIONS = 2
OFFSETS = st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 0.99])


class FetchMachine(RuleBasedStateMachine):
    """Appends, rolls, truncations, deletions, evictions, and reads that complete at any time."""

    @initialize(
        tail=st.sampled_from([0, 2_500, 1 << 20]),
        room=st.sampled_from([1 << 20, 8 << 20]),
        threads=st.integers(1, 3),
        ahead=st.sampled_from([0, 500, 4 << 20]),
        durability=st.sampled_from(["async", "fsync"]),
    )
    def start(self, tail: int, room: int, threads: int, ahead: int, durability: str) -> None:
        self.rig = CoreRig(
            log_tail_cache_bytes=tail,
            fetch_cold_threads=threads,
            fetch_cold_max_bytes=room,
            fetch_read_ahead_bytes=ahead,
        )
        self.topic_id = self.rig.topic(partitions=PARTITIONS, durability=durability)
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.starts = [0] * PARTITIONS
        self.written = 0
        self.reads: list[Any] = []
        self.asked: list[tuple[FakeRequest, list[tuple[int, int]], list[int]]] = []
        self.epochs = [0] * PARTITIONS
        self.known_reads: list[Any] = []
        self.peers = [FakePeer(session=number + 1) for number in range(2)]

    # --- what happens to the log ---------------------------------------------------------------------------

    def partition(self, number: int) -> Any:
        return self.rig.core.table.partitions[self.topic_id, number]

    @rule(
        number=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3), size=st.sampled_from([5, 300, 40_000])
    )
    def append(self, number: int, count: int, size: int) -> None:
        new = []
        for _ in range(count):
            self.written += 1
            new.append(b"%d:" % self.written + b"v" * size)
        self.rig.produce(self.topic_id, batch(*new), partition=number, acks=0)
        self.values[number] = self.values[number] + new
        assert self.partition(number).log.log_end_offset == len(self.values[number])

    @rule()
    def flush(self) -> None:
        """With durability=fsync this commits the appended records."""
        self.rig.flush()

    @rule(number=st.integers(0, PARTITIONS - 1))
    def roll(self, number: int) -> None:
        self.partition(number).log.roll(0)

    @rule(number=st.integers(0, PARTITIONS - 1), part=OFFSETS)
    def truncate(self, number: int, part: float) -> None:
        """As a follower between two leaderships."""
        self.rig.flush()
        self.answers_are_right()  # check the responses so far against the log so far
        partition = self.partition(number)
        end = int(part * len(self.values[number]))
        if end < self.starts[number]:
            return
        partition.log.truncate_to(end)
        end = partition.log.log_end_offset
        partition.high_watermark = min(partition.high_watermark, end)
        partition.flushed_offset = min(partition.flushed_offset, end)
        self.values[number] = self.values[number][:end]
        self.starts[number] = partition.log.log_start_offset

    @rule(number=st.integers(0, PARTITIONS - 1), part=OFFSETS, deletes=st.booleans())
    def delete(self, number: int, part: float, deletes: bool) -> None:
        log = self.partition(number).log
        offset = int(part * len(self.values[number]))
        if deletes:
            log.delete_segments_below(offset)
        else:
            log.advance_log_start_offset(offset)
        self.starts[number] = log.log_start_offset

    @rule(number=st.integers(0, PARTITIONS - 1))
    def commit_half(self, number: int) -> None:
        """With durability=fsync the last batch is uncommitted, but in the tail cache."""
        self.append(number, 2, 5)
        self.rig.flush()
        self.append(number, 2, 5)
        self.fetch_all(len(self.values[number]) - 4, number, knows_epoch=False)

    @rule(lose=st.booleans())
    def begin_epoch(self, lose: bool) -> None:
        """A new leader epoch, with or without another leader in between."""
        for leader in (-1, 1) if lose else (1,):
            self.answers_are_right()  # check the responses so far, in their epoch
            self.rig.set_leader(self.topic_id, leader)
            self.epochs[0] = self.partition(0).leader_epoch

    @rule(lose=st.booleans())
    def begin_epoch_during_a_read(self, lose: bool) -> None:
        """A read ends after its leader epoch: it is repeated, and a request with the old epoch is fenced."""
        self.append(0, 1, 300)
        self.evict()
        for knows_epoch in (False, True):
            self.fetch_all(self.starts[0], 0, knows_epoch=knows_epoch)
        self.begin_epoch(lose)
        self.collect()
        for item in self.reads:
            if not item[1]:
                item[0].run()
                item[1] = True
        while any(done for _, done in self.reads):
            self.come_back()
            self.answers_are_right()

    def fetch_all(self, offset: int, number: int, *, knows_epoch: bool) -> None:
        epoch = self.partition(number).leader_epoch if knows_epoch else -1
        entry = FetchPartition(self.topic_id, number, max(offset, self.starts[number]), 1 << 20, epoch)
        request = self.rig.ask(registry.FETCH, FetchRequest(100, 1, 1 << 20, 0, (entry,)), peer=self.peers[0])
        self.asked.append((request, [(number, entry.fetch_offset)], [epoch]))

    @rule()
    def evict(self) -> None:
        self.rig.core.flush_all()
        self.rig.check()
        self.rig.flush()
        self.rig.files.evict("/t-")

    @rule(can=st.booleans())
    def change_file_system(self, can: bool) -> None:
        self.rig.files.tells_what_is_cached = can

    # --- readers -------------------------------------------------------------------------------------------

    def waiting(self) -> list[FakeRequest]:
        return [item[0] for item in self.asked if not item[0].is_answered]

    @rule(
        part=OFFSETS,
        other=OFFSETS,
        peer=st.integers(0, 1),
        max_bytes=st.sampled_from([1, 500, 100_000, 1 << 20]),
        min_bytes=st.sampled_from([0, 1, 1_000]),
        wait_ms=st.sampled_from([0, 100, 10_000]),
        knows_epoch=st.booleans(),
    )
    def fetch(
        self,
        part: float,
        other: float,
        peer: int,
        max_bytes: int,
        min_bytes: int,
        wait_ms: int,
        knows_epoch: bool = False,
    ) -> None:
        wanted = [
            (number, self.starts[number] + int(share * (len(self.values[number]) - self.starts[number] + 1)))
            for number, share in enumerate((part, other))
        ]
        epochs = [self.partition(number).leader_epoch if knows_epoch else -1 for number, _ in wanted]
        entries = tuple(
            FetchPartition(self.topic_id, number, offset, 1 << 20, epoch)
            for (number, offset), epoch in zip(wanted, epochs, strict=True)
        )
        body = FetchRequest(wait_ms, min_bytes, max_bytes, 0, entries)
        request = self.rig.ask(registry.FETCH, body, peer=self.peers[peer])
        self.asked.append((request, wanted, epochs))

    @rule(first=OFFSETS, cut=OFFSETS)
    def truncate_under_a_read(self, first: float, cut: float) -> None:
        """The race: a read on a thread, a truncation, the completion of the read."""
        for _ in range(3):
            self.append(0, 1, 300)
        self.evict()
        self.fetch(first, first, 0, 1 << 20, 0, 100)
        self.collect()
        for item in self.reads:
            if not item[1]:
                item[0].run()
                item[1] = True
        self.truncate(0, cut)
        self.truncate(1, cut)
        while self.reads:
            self.come_back()
            self.collect()
            if not all(done for _, done in self.reads):
                break

    @rule(peer=st.integers(0, 1))
    def disconnect(self, peer: int) -> None:
        gone = self.peers[peer]
        gone.is_connected = False
        self.rig.core.connection_gone(gone.session, self.rig.now_ms)
        self.rig.check()
        self.peers[peer] = FakePeer(session=gone.session + 2)

    # --- disks and time ------------------------------------------------------------------------------------

    def collect(self) -> None:
        for effect in self.rig.pop(AdvisePages):
            effect.advice.run()
        new = [effect.read for effect in self.rig.pop(ReadCold)]
        self.reads += [[read, False] for read in new]
        self.known_reads += new

    @precondition(lambda self: self.reads)
    @rule(which=OFFSETS)
    def read_on_a_thread(self, which: float) -> None:
        """Run a read on its thread; its completion is delivered later."""
        item = self.reads[int(which * len(self.reads))]
        if not item[1]:
            item[0].run()
            item[1] = True

    @precondition(lambda self: any(done for _, done in self.reads))
    @rule()
    def come_back(self) -> None:
        item = next(item for item in self.reads if item[1])
        self.reads.remove(item)
        self.rig.core.cold_read(item[0], self.rig.now_ms)
        self.rig.check()

    @rule(milliseconds=st.sampled_from([50, 1_000, COLD_WAIT_MS]))
    def pass_time(self, milliseconds: int) -> None:
        self.rig.pass_time(milliseconds)

    @invariant()
    def answers_are_right(self) -> None:
        if not hasattr(self, "rig"):
            return
        self.collect()
        for request, wanted, epochs in self.asked:
            if request.answer is not None:
                self.check_answer(request, wanted, epochs)
        self.asked = [item for item in self.asked if not item[0].is_answered]

    def check_answer(self, request: FakeRequest, wanted: list[tuple[int, int]], epochs: list[int]) -> None:
        frames = list(request.sent)
        for (number, offset), epoch, answer in zip(wanted, epochs, request.answer.partitions, strict=True):
            mine, frames = frames[: answer.frame_count], frames[answer.frame_count :]
            found = values_of([bytes(frame) for frame in mine])
            if answer.error_code or not found:
                continue
            model = self.values[number]
            assert epoch in (-1, self.epochs[number]), "a fetch with an old leader epoch is fenced"
            for read in self.known_reads:
                if read.run_found is not None and any(frame is read.run_found.data for frame in mine):
                    assert read.leader_epoch == self.epochs[number], "read in an earlier leader epoch"
            committed = self.partition(number).high_watermark
            assert found[-1][0] < committed, "not committed"
            assert found[0][0] <= offset <= found[-1][0], "the first batch has the requested offset"
            assert found == [(at, model[at]) for at in range(found[0][0], found[-1][0] + 1)]
            assert found[-1][0] < answer.high_watermark <= len(model)
        assert not frames

    def teardown(self) -> None:
        """With working disks and enough time every request gets a response."""
        if not hasattr(self, "rig"):
            return
        for _ in range(400):
            self.collect()
            for item in self.reads:
                if not item[1]:
                    item[0].run()
                self.rig.core.cold_read(item[0], self.rig.now_ms)
                self.rig.check()
            self.reads = []
            self.rig.pass_time(2_000)
            if not self.waiting() and not self.rig.core.cold_reads.running:
                break
        self.answers_are_right()
        assert not self.waiting()
        assert self.rig.core.parked == 0


FetchMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
test_every_answer_is_a_right_prefix = FetchMachine.TestCase
