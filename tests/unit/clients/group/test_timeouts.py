"""Timeouts bound consumer calls: without a cluster, behind an auto-commit, and in a rebalance."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fake_cluster import Fault
from headrace import TopicPartition
from headrace.protocol.errors import ApiTimeoutError, HeadraceError, NetworkError

TIMEOUT_S = 3.0
SMALL_S = 0.6  # the least that a poll waits for a commit, and round trips
T0 = TopicPartition("t", 0)
PATIENT = {"default_api_timeout_ms": 600_000, "request_timeout_ms": 600_000, "auto_commit_interval_ms": 500}


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def reading(fake: Any, cluster: Any, **options: Any) -> Any:
    """A member that was handed out all records of the topic."""
    fake.create("t", 2)
    for number in range(2):
        fake.put("t", number, b"x", b"y")
    consumer = cluster.consumer("t", group="g", auto_offset_reset="earliest", **{**PATIENT, **options})
    for _ in range(100):
        await consumer.poll(0.1)
        if sum(each.offset for each in consumer.handed_out().values()) == 4:
            return consumer
    raise AssertionError("not all records came")


CALLS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda consumer: consumer.commit({T0: 1}, timeout=TIMEOUT_S),
    "committed": lambda consumer: consumer.committed(T0, timeout=TIMEOUT_S),
    "end_offsets": lambda consumer: consumer.end_offsets(timeout=TIMEOUT_S),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets(T0, timeout=TIMEOUT_S),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 1}, timeout=TIMEOUT_S),
    "poll": lambda consumer: consumer.poll(TIMEOUT_S),
    "close": lambda consumer: consumer.close(TIMEOUT_S),
}


@pytest.mark.parametrize("is_down", [False, True], ids=["silent", "refusing"])
@pytest.mark.parametrize("name", CALLS)
async def test_calls_time_out_while_the_cluster_is_unreachable(
    fake: Any, cluster: Any, name: str, is_down: bool
) -> None:
    """An auto-commit with a timeout of ten minutes is in flight."""
    consumer = await reading(fake, cluster)
    await consumer.poll(0)  # what was handed out before is finished now
    if is_down:
        fake.stop_node(0)
    else:
        fake.freeze_node(0)
    await asyncio.sleep(2)
    began_s = now_s()
    with suppress(HeadraceError):
        await CALLS[name](consumer)
    assert now_s() - began_s <= TIMEOUT_S + SMALL_S
    began_s = now_s()
    await consumer.close(TIMEOUT_S)
    assert now_s() - began_s <= TIMEOUT_S + SMALL_S


@pytest.mark.parametrize("timeout_s", [0, TIMEOUT_S])
async def test_poll_times_out_during_the_commit_before_a_revocation(
    fake: Any, cluster: Any, timeout_s: float
) -> None:
    """Another member joins, and the commit of finished work before the revocation does not succeed: polls end
    in time without records; once it succeeds, the rebalance continues, and no record is read twice."""
    options = {"assignors": ["range"], "auto_commit_interval_ms": 3_600_000}
    consumer = await reading(fake, cluster, **options)
    lost = Fault(error=NetworkError("away"))
    fake.rules.append(lambda ask: lost if ask.api == "OffsetCommit" else None)
    other = cluster.consumer("t", group="g", auto_offset_reset="earliest", **{**PATIENT, **options})
    revoking = False
    for _ in range(100):
        began_s = now_s()
        records = await consumer.poll(timeout_s)
        assert now_s() - began_s <= timeout_s + SMALL_S
        revoking = revoking or consumer._group.is_committing
        assert not (revoking and records)
        await other.poll(0.1)
    assert revoking
    fake.rules.clear()
    again = []
    while not other.handed_out() and len(again) < 100:
        again.append(await consumer.poll(0.1) + await other.poll(0.1))
    for number in range(2):
        fake.put("t", number, b"z")
    for _ in range(10):
        again.append(await consumer.poll(0.1) + await other.poll(0.1))
    assert [record.value for records in again for record in records] == [b"z", b"z"]


async def test_commit_survives_the_timeout_of_a_later_one(fake: Any, cluster: Any) -> None:
    """An earlier commit with more time succeeds once the cluster is back."""
    consumer = await reading(fake, cluster, enable_auto_commit=False)
    fake.stop_node(0)
    patient = asyncio.ensure_future(consumer.commit({T0: 2}, timeout=60))
    with pytest.raises(ApiTimeoutError, match="not committed in time"):
        await consumer.commit({T0: 1}, timeout=1)
    fake.start_node(0)
    await patient
    assert fake.committed("g")[T0] == 2
