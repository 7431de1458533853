"""A share-partition and a model that has one entry per offset go through the same random events."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.coordinators.share.changes import Acknowledgement, AckType, Acquired, Cause, Change
from headrace.coordinators.share.runs import Delivery
from headrace.coordinators.share.share_partition import ShareLimits, SharePartition
from headrace.protocol.errors import InvalidRecordStateError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

MEMBERS = ("a", "b", "c")
TYPES = tuple(AckType)
ENDS = {
    AckType.ACCEPT: (Delivery.ACKNOWLEDGED, 0, Cause.NONE),
    AckType.REJECT: (Delivery.ARCHIVED, 0, Cause.REJECTED),
    AckType.GAP: (Delivery.ARCHIVED, 0, Cause.NONE),
}


class Entry:
    """One offset of the model."""

    def __init__(self) -> None:
        self.state, self.deliveries, self.member, self.until_ms, self.change = Delivery.AVAILABLE, 0, "", 0, 0

    @property
    def is_done(self) -> bool:
        return self.state.is_terminal and not self.change


class SharePartitionMachine(RuleBasedStateMachine):
    """Members acquire and acknowledge; locks expire; writes succeed and fail; the leader changes."""

    @initialize(deliveries=st.integers(1, 3), in_flight=st.integers(3, 30), strict=st.booleans())
    def begin(self, deliveries: int, in_flight: int, strict: bool) -> None:
        self.limits = ShareLimits(lock_ms=10, deliveries=deliveries, in_flight=in_flight)
        self.partition = SharePartition(5, self.limits)
        self.is_strict, self.now_ms, self.log_start = strict, 0, 5
        self.entries: dict[int, Entry] = {}
        # the log: spans of batches, some with holes before them, and offsets that are skipped
        self.batches: list[tuple[int, int]] = []
        self.skipped: list[tuple[int, int]] = []
        self.open: list[tuple[Change, dict[int, Any]]] = []
        self.durable: dict[int, tuple[Delivery, int, int]] = {}

    # --- the log

    @rule(hole=st.sampled_from((0, 0, 0, 2)), size=st.integers(1, 6), skip=st.booleans())
    def append(self, hole: int, size: int, skip: bool) -> None:
        first = (self.batches[-1][1] + 1 if self.batches else 5) + hole
        self.batches.append((first, first + size - 1))
        if skip and size > 2:
            self.skipped.append((first + 1, first + 1))

    @rule(by=st.integers(1, 8))
    def delete_records(self, by: int) -> None:
        end = self.batches[-1][1] + 1 if self.batches else 5
        self.log_start = min(self.log_start + by, end)
        self.partition.advance_log_start(self.log_start)
        for offset in range(5, self.log_start):
            self.entries.setdefault(offset, Entry())
        self.archive_deleted()

    # --- members

    @rule(member=st.sampled_from(MEMBERS), most=st.integers(1, 8))
    def acquire(self, member: str, most: int) -> None:
        offset = self.partition.next_fetch_offset(self.now_ms)
        assert offset == self.expected_fetch_offset()
        read = [(first, last) for first, last in self.batches if offset is not None and last >= offset]
        found = self.partition.acquire(
            member, read, most, self.now_ms, is_strict=self.is_strict, skipped=self.skipped
        )
        taken = [each for span in found for each in range(span.first, span.last + 1)]
        assert len(taken) == len(set(taken))
        if self.is_strict:
            assert len(taken) <= most
        if offset is not None and any(last >= offset for _, last in read):
            assert taken or not self.is_deliverable(offset)
        for span in found:
            self.note_acquired(member, span)
        for offset in range(5, self.partition.end):
            # offsets that were passed without being acquired hold no record, or a skipped one
            if offset not in self.entries:
                assert not self.has_record(offset) or offset < self.log_start
                self.entries[offset] = Entry()
                self.entries[offset].state = Delivery.ARCHIVED

    def note_acquired(self, member: str, span: Acquired) -> None:
        for offset in range(span.first, span.last + 1):
            entry = self.entries.setdefault(offset, Entry())
            assert self.has_record(offset)
            assert entry.state is Delivery.AVAILABLE
            assert not entry.change
            assert entry.until_ms <= self.now_ms
            assert entry.deliveries < self.limits.deliveries
            entry.deliveries += 1
            assert entry.deliveries == span.deliveries
            entry.state, entry.member, entry.until_ms = Delivery.ACQUIRED, member, self.now_ms + 10

    @rule(
        member=st.sampled_from((*MEMBERS, "")),
        where=st.integers(0, 60),
        size=st.integers(1, 10),
        kinds=st.lists(st.sampled_from(TYPES), min_size=1, max_size=10),
        delay_ms=st.sampled_from((0, 0, 7)),
    )
    def acknowledge(self, member: str, where: int, size: int, kinds: list[AckType], delay_ms: int) -> None:
        """Of random offsets, or of some that are acquired, by their owner."""
        first = where + 5
        if not member and (held := [offset for offset, each in self.entries.items() if each.member]):
            first = held[where % len(held)]
            member = self.entries[first].member
            while not self.is_acquired_by(member, first + size - 1) and size > 1:
                size -= 1
        last = first + size - 1
        types = tuple(kinds[each % len(kinds)] for each in range(size)) if len(kinds) > 1 else (kinds[0],)
        offsets = [each for each in range(first, last + 1) if each >= self.partition.start]
        may = all(self.is_acquired_by(member, each) for each in offsets)
        result = Acknowledgement(first, last, types, delay_ms)
        if not may:
            with pytest.raises(InvalidRecordStateError):
                self.partition.acknowledge(member, [result], self.now_ms)
            return
        change = self.partition.acknowledge(member, [result], self.now_ms)
        news: dict[int, Any] = {}
        for offset in offsets:
            kind, entry = types[0] if len(types) == 1 else types[offset - first], self.entries[offset]
            if kind is AckType.RENEW:
                entry.until_ms = self.now_ms + 10
            elif kind is AckType.RELEASE:
                news[offset] = self.released(offset, self.now_ms + delay_ms if delay_ms else 0)
            else:
                news[offset] = ENDS[kind]
        self.note_change(change, news)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        change = self.partition.release(member)
        held = [offset for offset in self.entries if self.is_acquired_by(member, offset)]
        self.note_change(change, {offset: self.released(offset, 0) for offset in held})

    @rule(by=st.integers(1, 12))
    def wait(self, by: int) -> None:
        self.now_ms += by
        due = self.partition.next_expiry_ms()
        expired = {
            offset: self.released(offset, 0)
            for offset, entry in self.entries.items()
            if entry.state is Delivery.ACQUIRED and not entry.change and entry.until_ms <= self.now_ms
        }
        assert not expired or (due is not None and due <= self.now_ms)
        self.note_change(self.partition.expire(self.now_ms), expired)

    # --- writes of changes

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 20), is_written=st.booleans())
    def end_change(self, which: int, is_written: bool) -> None:
        change, news = self.open.pop(which % len(self.open))
        for offset, (state, until_ms, _) in news.items():
            entry = self.entries[offset]
            entry.change = 0
            if is_written:
                entry.state, entry.until_ms, entry.member = state, until_ms, ""
                self.durable[offset] = (state, entry.deliveries, until_ms)
                self.archive_deleted()
        (self.partition.commit if is_written else self.partition.rollback)(change)
        self.partition.commit(change)  # a change ends once
        self.partition.rollback(change)

    @rule()
    def fail_over(self) -> None:
        """The next leader has what was durable."""
        start = self.partition.start
        self.partition = SharePartition(start, self.limits, self.partition.durable())
        self.partition.advance_log_start(self.log_start)
        self.open.clear()
        for entry in self.entries.values():
            entry.change = 0
            if entry.state is Delivery.ACQUIRED:
                entry.state, entry.deliveries, entry.member, entry.until_ms = (
                    Delivery.AVAILABLE,
                    entry.deliveries - 1,
                    "",
                    0,
                )
        self.archive_deleted()

    # --- laws

    @invariant()
    def states_are_equal(self) -> None:
        if not hasattr(self, "partition"):
            return
        first = 5
        while first in self.entries and self.entries[first].is_done:
            first += 1
        assert self.partition.start == first
        position = first
        for run in self.partition.runs:
            assert run.first == position
            position = run.last + 1
            for offset in range(run.first, run.last + 1):
                entry = self.entries[offset]
                assert (run.state, bool(run.change)) == (entry.state, bool(entry.change)), offset
                if not run.state.is_terminal:
                    assert (run.deliveries, run.member) == (entry.deliveries, entry.member)
        assert position == self.partition.end
        done = sum(entry.state.is_terminal for offset, entry in self.entries.items() if offset >= first)
        assert self.partition.completed == done

    @invariant()
    def acknowledged_records_stay_acknowledged(self) -> None:
        for offset, (state, _, _) in getattr(self, "durable", {}).items():
            assert not state.is_terminal or self.entries[offset].state is state

    # --- help

    def note_change(self, change: Change, news: dict[int, Any]) -> None:
        found = {
            offset: (batch.state, batch.until_ms, batch.cause)
            for batch in change.batches
            for offset in range(batch.first, batch.last + 1)
        }
        assert found == news
        for offset in news:
            self.entries[offset].change = change.number
        if news:
            self.open.append((change, news))

    def released(self, offset: int, until_ms: int) -> tuple[Delivery, int, Cause]:
        if self.entries[offset].deliveries >= self.limits.deliveries:
            return Delivery.ARCHIVED, 0, Cause.DELIVERY_LIMIT
        return Delivery.AVAILABLE, until_ms, Cause.NONE

    def archive_deleted(self) -> None:
        for offset, entry in self.entries.items():
            if offset < self.log_start and entry.state is Delivery.AVAILABLE:
                entry.state = Delivery.ARCHIVED

    def is_acquired_by(self, member: str, offset: int) -> bool:
        entry = self.entries.get(offset)
        return (
            entry is not None
            and entry.state is Delivery.ACQUIRED
            and entry.member == member
            and not entry.change
        )

    def has_record(self, offset: int) -> bool:
        is_in_batch = any(first <= offset <= last for first, last in self.batches)
        return is_in_batch and not any(first <= offset <= last for first, last in self.skipped)

    def is_deliverable(self, offset: int) -> bool:
        entry = self.entries.get(offset)
        if entry is None:
            return self.has_record(offset)
        return entry.state is Delivery.AVAILABLE and not entry.change and entry.until_ms <= self.now_ms

    def expected_fetch_offset(self) -> int | None:
        for offset in sorted(self.entries):
            if self.is_deliverable(offset):
                return offset
        live = sum(not entry.state.is_terminal for entry in self.entries.values())
        return self.partition.end if live < self.limits.in_flight else None


TestSharePartition = SharePartitionMachine.TestCase
TestSharePartition.settings = settings(max_examples=50, stateful_step_count=40)
