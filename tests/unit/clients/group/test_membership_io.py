"""Consumers in groups over a fake cluster with the real coordinator, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import Fault
from group_members import Told, each_kind, member, owned, read, until
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

Play = Callable[..., Any]
T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


@each_kind
def test_one_member_reads_all_and_commits_what_it_finished(play: Play, kind: str) -> None:
    """After its end another goes on behind."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


@each_kind
def test_members_share_and_take_over(play: Play, kind: str) -> None:
    """Two have two partitions each; one leaves, the other has all, and hears of it."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t", 4)
        told = Told()
        first = member(cluster, kind, listener=told)
        await until(lambda: len(owned(first)) == 4, first)
        second = member(cluster, kind)
        await until(lambda: len(owned(first)) == len(owned(second)) == 2, first, second)
        assert sorted((*owned(first), *owned(second))) == [T0, T1, T2, T3]
        assert first.group_metadata().generation_id == second.group_metadata().generation_id
        await second.close()
        await until(lambda: len(owned(first)) == 4, first)
        moved = tuple(tps for name, tps in told.heard if name == "revoked")
        if kind == "eager":
            assert moved == ((T0, T1, T2, T3), tuple(owned(first)[:2])), "everything is given up each time"
        else:
            assert [len(tps) for tps in moved] == [2], "only what others get is given up"
        assert told.heard[0] == ("assigned", (T0, T1, T2, T3))
        assert not [tps for name, tps in told.heard if name == "lost"]

    play(scenario)


@each_kind
def test_auto_commit_never_goes_beyond_what_is_finished(play: Play, kind: str) -> None:
    """A batch counts when the next is asked for, a record in a loop likewise, and so do rows of a table."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


def test_auto_commit_goes_back_with_a_seek(play: Play) -> None:
    """Whoever seeks back wants what follows again, also after a restart."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t", 1)
        fake.put("t", 0, b"1", b"2", b"3")
        first = member(cluster, auto_commit_interval_ms=3_600_000)
        assert await read(first) == [b"1", b"2", b"3"]
        await first.commit()
        assert fake.committed("g") == {("t", 0): 3}
        await first.seek(T0, 1)
        await first.close()
        assert fake.committed("g") == {("t", 0): 1}

    play(scenario)


@each_kind
def test_commits_by_record_by_batch_and_by_offset(play: Play, kind: str) -> None:
    """Each says what it committed; `committed` shows it, with metadata and leader epoch."""

    async def scenario(fake: Any, cluster: Any) -> None:
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
        heard: list[Any] = []
        future = consumer.commit_async(
            {T0: 2}, callback=lambda offsets, error: heard.append((offsets, error))
        )
        assert await future == {T0: OffsetAndMetadata(2)}
        assert heard == [({T0: OffsetAndMetadata(2)}, None)]
        for bad, kinds in (("x", TypeError), ({T0: -1}, ValueError), ({"t": 1}, TypeError)):
            with pytest.raises(kinds):
                await consumer.commit(bad)

    play(scenario)


def test_many_async_commits_become_few_requests_in_order(play: Play) -> None:
    """A hundred of one partition: the last counts, all are told, and none goes back."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


@each_kind
def test_revoked_partitions_are_committed_before_the_callback(play: Play, kind: str) -> None:
    """And in the callback they can be committed still; afterwards nothing of them is handed out."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


@each_kind
def test_a_commit_that_is_under_way_is_waited_for_before_the_callback(play: Play, kind: str) -> None:
    """An auto-commit has all that is finished, and takes its time: what is given up before it has ended
    would be read twice."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


@each_kind
def test_a_member_that_does_not_poll_leaves_and_loses(play: Play, kind: str) -> None:
    """Its commits fail, it hears of it, and comes back."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, b"1", b"2")
        told = Told()
        slow = member(cluster, kind, listener=told, max_poll_interval_ms=10_000, enable_auto_commit=False)
        records = await slow.poll(5)
        other = member(cluster, kind, enable_auto_commit=False)
        while not owned(other):
            await other.poll(0.5)
        with pytest.raises(errors.CommitFailedError):
            await slow.commit(records)
        await until(lambda: ("lost", (T0,)) in told.heard, slow, other)
        with pytest.raises(errors.CommitFailedError):
            await slow.commit(records)
        await other.close()
        await until(lambda: owned(slow) == (T0,), slow)
        assert fake.committed("g") == {}

    play(scenario)


@each_kind
def test_what_was_lost_is_not_committed_in_nobodys_name(play: Play, kind: str) -> None:
    """A transaction names the member that had the partitions until they are given up: the group refuses it,
    as it would not refuse offsets of nobody."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


def test_slow_loops_keep_their_membership(play: Play) -> None:
    """Each record takes less than max.poll.interval.ms, a batch of them more."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, *[b"x"] * 10)
        told = Told()
        consumer = member(cluster, listener=told, max_poll_interval_ms=10_000, iter_timeout=1.0)
        async for _ in consumer:
            await asyncio.sleep(5)
        assert told.heard == [("assigned", (T0,))]

    play(scenario)


@each_kind
def test_a_static_member_comes_back_to_its_partitions(play: Play, kind: str) -> None:
    """No rebalance; a second one with its id fences the first, or is refused while the first lives."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t", 2)
        told = Told()
        other = member(cluster, kind, listener=told)
        static = member(cluster, kind, group_instance_id="a")
        await until(lambda: len(owned(other)) == len(owned(static)) == 1, other, static)
        mine, heard = owned(static), len(told.heard)
        await static.close()
        again = member(cluster, kind, group_instance_id="a")
        await until(lambda: owned(again) == mine, other, again)
        assert len(told.heard) == heard, "the other one hears nothing of it"
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

    play(scenario)


@each_kind
def test_the_coordinator_moves(play: Play, kind: str) -> None:
    """Reading, membership and commits go on."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t", 2)
        told = Told()
        consumer = member(cluster, kind, listener=told, auto_commit_interval_ms=500)
        await until(lambda: len(owned(consumer)) == 2, consumer)
        for node in (1, 2, 0):
            fake.move_coordinator(node)
            fake.put("t", 0, b"x")
            assert await read(consumer, 5.0) == [b"x"]
            assert await consumer.commit()
        assert told.heard == [("assigned", (T0, T1))]
        assert fake.committed("g")["t", 0] == 3

    play(scenario, nodes=3)


def test_cooperative_members_keep_what_they_fetched(play: Play) -> None:
    """Of partitions that stay nothing is fetched twice; of those that go nothing more is handed out."""

    async def scenario(fake: Any, cluster: Any) -> None:
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
        assert fetched.count(0) == 1, "what was fetched ahead is kept"
        values = await read(first)
        assert all(value.startswith(b"%d-" % stays.partition) for value in values)

    play(scenario)


@each_kind
def test_errors_that_only_the_user_can_help(play: Play, kind: str) -> None:
    """Raised by poll; the next poll tries again."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


def test_what_needs_a_group_says_so(play: Play) -> None:
    """And what does not go together."""

    async def scenario(fake: Any, cluster: Any) -> None:
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
            cluster.consumer("t", listener=Told())
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
            await consumer.subscribe("t", listener=Told(), on_lost=print)
        with pytest.raises(errors.ConfigError, match="nothing to read"):
            await member(cluster, topics=None).poll(0)

    play(scenario)


def test_partitions_by_hand_with_a_group(play: Play) -> None:
    """Positions come from what the group committed, and go there; there is no membership."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario)


def test_wakeup_ends_a_poll_with_an_error(play: Play) -> None:
    """Also while the group has given nothing yet; the next poll goes on."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, b"1")
        consumer = member(cluster)
        asyncio.get_running_loop().call_later(0.001, consumer.wakeup)
        with pytest.raises(errors.WakeupError):
            await consumer.poll(60)
        assert await read(consumer) == [b"1"]

    play(scenario)


def test_a_callback_that_raises_is_heard_and_the_group_goes_on(play: Play) -> None:
    """Out of poll, as it came; the assignment stands."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, b"1")

        def on_assigned(_consumer: Any, _tps: Any) -> None:
            raise ValueError("the user's")

        consumer = member(cluster, topics=None)
        await consumer.subscribe("t", on_assigned=on_assigned)
        with pytest.raises(ValueError, match="the user's"):
            await until(lambda: False, consumer)
        assert await read(consumer) == [b"1"]

    play(scenario)


def test_seeking_in_the_callback_counts(play: Play) -> None:
    """Rather than what the group committed."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.create("t")
        fake.put("t", 0, b"1", b"2", b"3")

        async def on_assigned(consumer: Any, tps: Any) -> None:
            for tp in tps:
                await consumer.seek(tp, 2)

        consumer = member(cluster, topics=None)
        await consumer.subscribe("t", on_assigned=on_assigned)
        assert await read(consumer) == [b"3"]

    play(scenario)
