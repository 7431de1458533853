"""Consumers in groups on a fake cluster with the real coordinator, in virtual time."""

import asyncio
import contextlib
from typing import Any

import pytest
from fake_cluster import Fault
from group_members import RecordingListener, each_kind, member, owned, read, until
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


@each_kind
async def test_single_member_commits_finished_records(fake: Any, cluster: Any, kind: str) -> None:
    """After it has closed, another member continues behind them."""
    fake.create("t", 2)
    fake.put("t", 0, b"1", b"2")
    fake.put("t", 1, b"3")
    first = member(cluster, kind)
    assert sorted(await read(first)) == [b"1", b"2", b"3"]
    assert await first.assignment() == (T0, T1)
    await first.close()
    assert fake.committed("g") == {("t", 0): 2, ("t", 1): 1}
    fake.put("t", 0, b"4")
    assert await read(member(cluster, kind)) == [b"4"]


@each_kind
async def test_members_share_partitions_and_take_them_over(fake: Any, cluster: Any, kind: str) -> None:
    """Two members have two partitions each; one leaves, the other adopts its partitions."""
    fake.create("t", 4)
    result = RecordingListener()
    first = member(cluster, kind, listener=result)
    await until(lambda: len(owned(first)) == 4, first)
    second = member(cluster, kind)
    await until(lambda: len(owned(first)) == len(owned(second)) == 2, first, second)
    assert sorted((*owned(first), *owned(second))) == [T0, T1, T2, T3]
    assert first.group_metadata().generation_id == second.group_metadata().generation_id
    await second.close()
    await until(lambda: len(owned(first)) == 4, first)
    moved = tuple(tps for name, tps in result.events if name == "revoked")
    if kind == "eager":
        assert moved == ((T0, T1, T2, T3), tuple(owned(first)[:2])), "everything is given up each time"
    else:
        assert [len(tps) for tps in moved] == [2], "only what others get is given up"
    assert result.events[0] == ("assigned", (T0, T1, T2, T3))
    assert not [tps for name, tps in result.events if name == "lost"]


@each_kind
async def test_auto_commit_covers_finished_records_only(fake: Any, cluster: Any, kind: str) -> None:
    """A batch, a record or a table is finished when the next one is requested."""
    fake.create("t")
    fake.put("t", 0, *[b"%d" % number for number in range(10)])
    consumer = member(cluster, kind, auto_commit_interval_ms=100, iter_timeout=1.0)
    batch = await consumer.poll(5, 3)
    assert len(batch) == 3
    await asyncio.sleep(1)
    assert fake.committed("g").get(("t", 0), 0) == 0
    await consumer.poll(5, 2)
    await asyncio.sleep(1)
    assert fake.committed("g") == {("t", 0): 3}
    async for record in consumer:
        await asyncio.sleep(1)
        assert fake.committed("g") == {("t", 0): record.offset}, "the one in hand is not finished"
        if record.offset == 7:
            break
    await asyncio.sleep(1)
    assert fake.committed("g") == {("t", 0): 7}
    async for table in consumer.arrow_batches(10, 0.1):
        assert table.num_rows == 2
        await asyncio.sleep(1)
        assert fake.committed("g") == {("t", 0): 8}
        break
    await consumer.close()
    assert fake.committed("g") == {("t", 0): 8}, "closing does not finish what is in hand"


async def test_auto_commit_follows_a_seek_backwards(fake: Any, cluster: Any) -> None:
    """The records behind the new position are read again after a restart."""
    fake.create("t", 1)
    fake.put("t", 0, b"1", b"2", b"3")
    first = member(cluster, auto_commit_interval_ms=3_600_000)
    assert await read(first) == [b"1", b"2", b"3"]
    await first.commit()
    assert fake.committed("g") == {("t", 0): 3}
    await first.seek(T0, 1)
    await first.close()
    assert fake.committed("g") == {("t", 0): 1}


@each_kind
async def test_commits_by_record_by_batch_and_by_offset(fake: Any, cluster: Any, kind: str) -> None:
    """Each gives the committed offsets; `committed` returns them with metadata and leader epoch."""
    fake.create("t", 2)
    fake.put("t", 0, b"a", b"b", b"c")
    fake.put("t", 1, b"d")
    consumer = member(cluster, kind, enable_auto_commit=False)
    records = [record for _ in range(2) for record in await consumer.poll(5)]
    by_place = {(record.partition, record.offset): record for record in records}
    assert await consumer.commit(by_place[0, 1]) == {T0: OffsetAndMetadata(2, "", 0)}
    assert await consumer.commit(records) == {
        T0: OffsetAndMetadata(3, "", 0),
        T1: OffsetAndMetadata(1, "", 0),
    }
    assert await consumer.commit({T0: 1, T1: OffsetAndMetadata(0, "note")}) == {
        T0: OffsetAndMetadata(1),
        T1: OffsetAndMetadata(0, "note"),
    }
    assert (await consumer.committed())[T1] == OffsetAndMetadata(0, "note")
    assert await consumer.commit() == {T0: OffsetAndMetadata(3, "", 0), T1: OffsetAndMetadata(1, "", 0)}
    received: list[Any] = []
    future = consumer.commit_async({T0: 2}, callback=lambda offsets, error: received.append((offsets, error)))
    assert await future == {T0: OffsetAndMetadata(2)}
    assert received == [({T0: OffsetAndMetadata(2)}, None)]
    for bad, kinds in (("x", TypeError), ({T0: -1}, ValueError), ({"t": 1}, TypeError)):
        with pytest.raises(kinds):
            await consumer.commit(bad)


async def test_async_commits_are_merged_in_order(fake: Any, cluster: Any) -> None:
    """A hundred of one partition: the last one counts, each future ends, and no offset goes back."""
    fake.create("t")
    fake.put("t", 0, *[b"x"] * 100)
    consumer = member(cluster, enable_auto_commit=False)
    records = await consumer.poll(5)
    futures = [consumer.commit_async(record) for record in records]
    fake.fail_next("OffsetCommit", Fault(lost_reply=True))
    await asyncio.gather(*futures)
    offsets = [offset for *_, offset in fake.commits]
    assert offsets == sorted(offsets)
    assert offsets[-1] == 100
    assert len(offsets) < 10


@each_kind
async def test_revoked_partitions_are_committed_before_the_callback(
    fake: Any, cluster: Any, kind: str
) -> None:
    """The callback can still commit them; afterwards no record of them is returned."""
    fake.create("t", 2)
    for partition in (0, 1):
        fake.put("t", partition, *[b"x"] * 30)
    seen: list[Any] = []

    async def on_revoked(consumer: Any, tps: Any) -> None:
        seen.append((tps, fake.committed("g")))
        with pytest.raises(errors.HeadraceError, match="callback"):
            await consumer.poll(0)
        await consumer.commit()

    first = member(cluster, kind, topics=None, auto_commit_interval_ms=3_600_000)
    await first.subscribe("t", on_revoked=on_revoked)
    batch = await first.poll(5, 10)
    at = batch[0].partition
    second = member(cluster, kind)
    await until(lambda: seen, second, first)
    (tps, committed), *_ = seen
    assert tps
    handed = committed.get(("t", at), 0)
    assert handed >= 10 or TopicPartition("t", at) not in tps
    await until(lambda: len(owned(first)) == len(owned(second)) == 1, first, second)


@each_kind
async def test_revocation_waits_for_an_auto_commit_in_flight(fake: Any, cluster: Any, kind: str) -> None:
    """Partitions revoked before it has ended would be read twice."""
    fake.create("t", 2)
    for partition in (0, 1):
        fake.put("t", partition, *[b"x"] * 30)
    seen: list[Any] = []

    async def on_revoked(_consumer: Any, tps: Any) -> None:
        seen.append((tps, fake.committed("g")))

    first = member(cluster, kind, topics=None, auto_commit_interval_ms=100)
    await first.subscribe("t", on_revoked=on_revoked)
    fake.fail_next("OffsetCommit", Fault(delay_ms=10_000))
    assert len(await read(first)) == 60
    second = member(cluster, kind)
    await until(lambda: seen, second, first)
    (tps, committed), *_ = seen
    assert {tp: committed.get(tuple(tp)) for tp in tps} == dict.fromkeys(tps, 30)


@each_kind
async def test_member_without_polls_loses_its_partitions(fake: Any, cluster: Any, kind: str) -> None:
    """Its commits fail, `on_lost` is called, and it joins again."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2")
    result = RecordingListener()
    slow = member(cluster, kind, listener=result, max_poll_interval_ms=10_000, enable_auto_commit=False)
    records = await slow.poll(5)
    other = member(cluster, kind, enable_auto_commit=False)
    while not owned(other):
        await other.poll(0.5)
    with pytest.raises(errors.CommitFailedError):
        await slow.commit(records)
    await until(lambda: ("lost", (T0,)) in result.events, slow, other)
    with pytest.raises(errors.CommitFailedError):
        await slow.commit(records)
    await other.close()
    await until(lambda: owned(slow) == (T0,), slow)
    assert fake.committed("g") == {}


@each_kind
async def test_transaction_uses_the_metadata_of_the_lost_membership(
    fake: Any, cluster: Any, kind: str
) -> None:
    """Until the partitions are given up: the group refuses the offsets, unlike those without a member."""
    fake.create("t")
    fake.put("t", 0, b"1")
    slow = member(cluster, kind, max_poll_interval_ms=10_000, session_timeout_ms=10_000)
    assert await slow.poll(5)
    before = slow.group_metadata()
    assert before.member_id
    assert before.generation_id >= 0
    core = slow._engine.group._core
    await until(lambda: not core.is_member)
    assert owned(slow) == (T0,)
    assert slow.group_metadata() == before
    await until(lambda: core.is_member and slow.group_metadata() != before, slow)
    await slow.unsubscribe()
    assert slow.group_metadata().generation_id == -1


async def test_slow_iterations_keep_their_membership(fake: Any, cluster: Any) -> None:
    """Each record takes less than max.poll.interval.ms, a batch more."""
    fake.create("t")
    fake.put("t", 0, *[b"x"] * 10)
    result = RecordingListener()
    consumer = member(cluster, listener=result, max_poll_interval_ms=10_000, iter_timeout=1.0)
    async for _ in consumer:
        await asyncio.sleep(5)
    assert result.events == [("assigned", (T0,))]


@each_kind
async def test_static_member_returns_to_its_partitions(fake: Any, cluster: Any, kind: str) -> None:
    """Without a rebalance; a second member with its id fences it, or is rejected while it lives."""
    fake.create("t", 2)
    result = RecordingListener()
    other = member(cluster, kind, listener=result)
    static = member(cluster, kind, group_instance_id="a")
    await until(lambda: len(owned(other)) == len(owned(static)) == 1, other, static)
    mine, received = owned(static), len(result.events)
    await static.close()
    again = member(cluster, kind, group_instance_id="a")
    await until(lambda: owned(again) == mine, other, again)
    assert len(result.events) == received, "the other member's listener is not called"
    third = member(cluster, kind, group_instance_id="a")
    if kind == "new":
        with pytest.raises(errors.UnreleasedInstanceIdError):
            await until(lambda: owned(third), third)
        await again.close(leave=True)
    else:
        await until(lambda: owned(third) == mine, other, third)
        for _ in range(2):
            with pytest.raises(errors.FencedInstanceIdError):
                await until(lambda: False, again)
        with pytest.raises(errors.FencedInstanceIdError):
            await again.commit()
    await third.close(leave=True)
    await until(lambda: len(owned(other)) == 2, other)


@each_kind
@pytest.mark.fake_cluster(nodes=3)
async def test_membership_survives_a_new_coordinator(fake: Any, cluster: Any, kind: str) -> None:
    """Reading, heartbeats and commits continue."""
    fake.create("t", 2)
    result = RecordingListener()
    consumer = member(cluster, kind, listener=result, auto_commit_interval_ms=500)
    await until(lambda: len(owned(consumer)) == 2, consumer)
    for node in (1, 2, 0):
        fake.move_coordinator(node)
        fake.put("t", 0, b"x")
        assert await read(consumer, 5.0) == [b"x"]
        assert await consumer.commit()
    assert result.events == [("assigned", (T0, T1))]
    assert fake.committed("g")["t", 0] == 3


async def test_cooperative_members_keep_fetched_records(fake: Any, cluster: Any) -> None:
    """Retained partitions are not fetched again; no record of a revoked one is returned."""
    fake.create("t", 2)
    for partition in (0, 1):
        fake.put("t", partition, *[b"%d-%d" % (partition, number) for number in range(20)])
    first = member(cluster, "cooperative", max_poll_records=5)
    await until(lambda: len(owned(first)) == 2, first)
    second = member(cluster, "cooperative", max_poll_records=5)
    await until(lambda: len(owned(first)) == len(owned(second)) == 1, first, second)
    (stays,) = owned(first)
    fetched = [
        entry.fetch_offset
        for body in fake.requests("Fetch")
        for entry in body.partitions
        if entry.partition == stays.partition and entry.topic_id == fake.topics["t"].topic_id
    ]
    assert fetched.count(0) == 1, "prefetched records are kept"
    values = await read(first)
    assert all(value.startswith(b"%d-" % stays.partition) for value in values)


@each_kind
async def test_fatal_errors_are_raised_by_poll(fake: Any, cluster: Any, kind: str) -> None:
    """The next poll joins again."""
    fake.create("t")
    fake.node_config |= {"group.max.size": 1, "group.consumer.max.size": 1}
    first = member(cluster, kind)
    await until(lambda: owned(first), first)
    second = member(cluster, kind)
    for _ in range(2):
        with pytest.raises(errors.GroupMaxSizeReachedError):
            await until(lambda: False, second)
    await first.close()
    with contextlib.suppress(errors.GroupMaxSizeReachedError):  # of the attempt before
        await second.poll(0)
    await until(lambda: owned(second), second)


async def test_group_calls_without_a_group_are_errors(fake: Any, cluster: Any) -> None:
    """So are combinations of `assign` and `subscribe`."""
    fake.create("t")
    alone = cluster.consumer("t")
    for call in (alone.commit, alone.committed, lambda: alone.subscribe("t"), alone.unsubscribe):
        if call == alone.unsubscribe:
            continue
        with pytest.raises(errors.ConfigError, match="group"):
            await call()
    with pytest.raises(errors.ConfigError, match="group"):
        cluster.consumer(pattern="t.*")
    with pytest.raises(errors.ConfigError, match="group"):
        cluster.consumer("t", listener=RecordingListener())
    consumer = member(cluster)
    with pytest.raises(errors.ConfigError, match="topics"):
        await consumer.assign([T0])
    with pytest.raises(errors.ConfigError, match="assignor 'rang'"):
        await member(cluster, assignors=["rang"]).poll(0)
    with pytest.raises(errors.ConfigError, match="pattern"):
        await member(cluster, topics=None).subscribe()
    with pytest.raises(errors.ConfigError, match="regular"):
        await member(cluster, topics=None).subscribe(pattern="(")
    with pytest.raises(errors.ConfigError, match="twice"):
        await consumer.subscribe("t", listener=RecordingListener(), on_lost=print)
    with pytest.raises(errors.ConfigError, match="nothing to read"):
        await member(cluster, topics=None).poll(0)


async def test_assigned_partitions_with_a_group(fake: Any, cluster: Any) -> None:
    """Positions come from the committed offsets of the group; there is no membership."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")
    first = member(cluster, topics=None)
    await first.assign([T0])
    assert len(await first.poll(5, 2)) == 2
    assert first.group_metadata().generation_id == -1
    assert await first.commit() == {T0: OffsetAndMetadata(2, "", 0)}
    second = member(cluster, topics=None)
    await second.assign([T0])
    assert await read(second) == [b"3"]
    await second.close()
    assert fake.committed("g") == {("t", 0): 3}
    await first.unsubscribe()
    assert await first.assignment() == ()


async def test_wakeup_ends_a_poll_with_an_error(fake: Any, cluster: Any) -> None:
    """Also before the first assignment; the next poll continues."""
    fake.create("t")
    fake.put("t", 0, b"1")
    consumer = member(cluster)
    asyncio.get_running_loop().call_later(0.001, consumer.wakeup)
    with pytest.raises(errors.WakeupError):
        await consumer.poll(60)
    assert await read(consumer) == [b"1"]


async def test_errors_of_callbacks_are_raised_by_poll(fake: Any, cluster: Any) -> None:
    """Unchanged; the assignment stays."""
    fake.create("t")
    fake.put("t", 0, b"1")

    def on_assigned(_consumer: Any, _tps: Any) -> None:
        raise ValueError("the user's")

    consumer = member(cluster, topics=None)
    await consumer.subscribe("t", on_assigned=on_assigned)
    with pytest.raises(ValueError, match="the user's"):
        await until(lambda: False, consumer)
    assert await read(consumer) == [b"1"]


async def test_seek_in_on_assigned_replaces_the_committed_offset(fake: Any, cluster: Any) -> None:
    """The committed offset of the group is ignored."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2", b"3")

    async def on_assigned(consumer: Any, tps: Any) -> None:
        for tp in tps:
            await consumer.seek(tp, 2)

    consumer = member(cluster, topics=None)
    await consumer.subscribe("t", on_assigned=on_assigned)
    assert await read(consumer) == [b"3"]
