"""The lags of a reading: which offsets leaders are asked to count, and in how many requests."""

import asyncio
from typing import Any

import pytest
from headrace.clients.admin.admin_types import Results
from headrace.clients.admin.lag_types import ConsumerLag
from headrace.protocol.errors import KafkaError, NotLeaderOrFollowerError
from headrace.protocol.messages.lag import MAX_COUNTED_OFFSETS
from headrace.protocol.model import TopicPartition
from headrace.services.console import snapshots_io
from headrace.services.console.snapshots_io import _counts

PLACES = [TopicPartition("t", number) for number in range(20)]


class StubAdmin:
    """Each offset below 100 has a record. `sizes`: offsets per call."""

    def __init__(self, failing: frozenset[TopicPartition] = frozenset(), waits_after: int = 10**9) -> None:
        self.failing, self.waits_after = failing, waits_after
        self.sizes: list[int] = []

    async def count_records(self, offsets: Any) -> Any:
        if len(self.sizes) >= self.waits_after:
            await asyncio.Event().wait()
        self.sizes.append(sum(map(len, offsets.values())))
        found: dict[TopicPartition, dict[int, ConsumerLag] | KafkaError] = {
            tp: NotLeaderOrFollowerError("moved")
            if tp in self.failing
            else {at: ConsumerLag(at, 0, 100, max(100 - at, 0)) for at in some}
            for tp, some in offsets.items()
        }
        return Results(found)


def counted(admin: Any, committed: Any) -> dict[TopicPartition, dict[int, int]]:
    return asyncio.run(_counts(admin, committed, frozenset(PLACES)))


def test_equal_offsets_are_counted_once() -> None:
    """A thousand groups at the same offsets cost one request; a partition without a leader none."""
    admin = StubAdmin()
    place = dict.fromkeys((*PLACES, TopicPartition("offline", 0)), 60)
    found = counted(admin, {f"g{number}": place for number in range(1_000)})
    assert admin.sizes == [20]
    assert found == {tp: {60: 40} for tp in PLACES}


def test_requests_have_bounds() -> None:
    """A thousand groups with offsets of their own."""
    admin = StubAdmin()
    counted(admin, {f"g{number}": dict.fromkeys(PLACES, number) for number in range(1_000)})
    assert admin.sizes == [MAX_COUNTED_OFFSETS] * 20


def test_lags_that_are_not_counted_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition whose leader does not count, and of all that are not counted in time."""
    monkeypatch.setattr(snapshots_io, "PART_TIMEOUT_S", 0.05)
    admin = StubAdmin(frozenset(PLACES[:1]), waits_after=1)
    found = counted(admin, {f"g{number}": dict.fromkeys(PLACES[:2], number) for number in range(1_000)})
    assert admin.sizes == [MAX_COUNTED_OFFSETS]
    assert found == {}
    assert counted(StubAdmin(frozenset(PLACES[:1])), {"g": dict.fromkeys(PLACES[:2], 7)}) == {
        PLACES[1]: {7: 93}
    }
