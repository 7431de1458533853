"""Consumers join, die, stall and close in any order, with a coordinator that moves and lost messages, against
the real group coordinator in virtual time.

Laws: no record is processed by two members that the group counts at once, committed offsets never go back,
and every record is processed.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import virtual_loop
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

PARTITIONS, NODES, SECONDS = 5, 3, 90
MAX_POLL_MS = 6_000
GROUP_REQUESTS = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
)
KINDS = {
    "range": {"assignors": ["range"]},
    "roundrobin": {"assignors": ["roundrobin"]},
    "sticky": {"assignors": ["sticky"]},
    "cooperative-sticky": {"assignors": ["cooperative-sticky"]},
    "default": {},
    "new": {"group_protocol": "consumer"},
}


@dataclass
class Watch:
    """The owner of each partition, and the end of its session."""

    held: dict[TopicPartition, tuple[str, float]] = field(default_factory=dict)
    finished: set[tuple[int, int]] = field(default_factory=set)

    def hand(self, name: str, records: list[Any], now: float) -> None:
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            holder, until = self.held.get(tp, (name, 0.0))
            assert holder == name or until <= now, f"{now}: {tp} goes to {name} while {holder} has it"
            # A rebalance that the member has not learned of before this poll waits a little less for it.
            self.held[tp] = (name, now + MAX_POLL_MS / 1000 - 1)

    def finish(self, records: list[Any]) -> None:
        self.finished |= {(record.partition, record.offset) for record in records}

    def drop(self, name: str) -> None:
        self.held = {tp: held for tp, held in self.held.items() if held[0] != name}


def troubles(random: Random) -> Any:
    """A rule that loses or delays one request of members in twenty, or its response."""

    def rule(ask: Ask) -> Fault | None:
        if ask.api not in GROUP_REQUESTS or random.random() > 0.05:
            return None
        return random.choice([Fault(lost_request=True), Fault(lost_reply=True), Fault(delay_ms=300)])

    return rule


class Member:
    """One consumer and its application."""

    def __init__(self, name: str, cluster: AsyncCluster, watch: Watch, random: Random, kind: str) -> None:
        self.name, self.watch, self.random = name, watch, random
        self.consumer = cluster.consumer(
            "t",
            group="g",
            auto_offset_reset="earliest",
            max_poll_interval_ms=MAX_POLL_MS,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            auto_commit_interval_ms=400,
            retry_backoff_ms=50,
            **KINDS[kind],
        )
        self.task = asyncio.create_task(self.run())
        self.is_over = False

    async def run(self) -> None:
        random, loop = self.random, asyncio.get_running_loop()
        while not self.is_over:
            try:
                records = await self.consumer.poll(random.choice([0.1, 1.0]), random.choice([1, 3, 50]))
            except errors.CommitFailedError:
                continue
            self.watch.hand(self.name, records, loop.time())
            await asyncio.sleep(random.choice([0.0, 0.01, 0.3, 0.3, 8.0 if random.random() < 0.05 else 0.1]))
            self.watch.finish(records)
            if random.random() < 0.3 and records:
                with contextlib.suppress(errors.CommitFailedError):  # the commit came too late: reassigned
                    await self.consumer.commit(random.choice([None, records, records[-1]]))
            self.watch.drop(self.name)
        await self.consumer.close(leave=random.choice([True, None]))

    async def close(self) -> None:
        """Close the consumer after its current step."""
        self.is_over = True
        await self.task

    async def kill(self) -> None:
        """End without LeaveGroup, as by SIGKILL."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if self.consumer._holder.made is not None:
            self.consumer._holder.made.fail(errors.ClosedError("killed"))
        self.consumer._is_closed = True
        self.watch.drop(self.name)


async def play(seed: int, kind: str) -> None:
    """One history."""
    random, watch, fake = Random(seed), Watch(), FakeCluster(NODES)
    fake.node_config.update({
        "group.min.session.timeout.ms": 1_000,
        "group.consumer.session.timeout.ms": 6_000,
        "group.consumer.heartbeat.interval.ms": 500,
    })  # fmt: skip
    fake.create("t", PARTITIONS)
    fake.rules.append(troubles(random))
    async with AsyncCluster("node0:9000", make_hub=fake.make_hub) as cluster:
        members: dict[str, Member] = {}
        count = 0
        for _ in range(SECONDS):
            await asyncio.sleep(1)
            fake.put("t", random.randrange(PARTITIONS), *[b"x"] * random.choice([1, 2, 20]))
            for member in members.values():
                if member.task.done():
                    member.task.result()
            step = random.random()
            if step < 0.15 and len(members) < 5:
                count += 1
                name = f"m{count}"
                members[name] = Member(name, cluster, watch, random, kind)
            elif step < 0.22 and members:
                await members.pop(random.choice(sorted(members))).close()
            elif step < 0.29 and members:
                await members.pop(random.choice(sorted(members))).kill()
            elif step < 0.33:
                fake.move_coordinator(random.randrange(NODES))
        fake.rules.clear()
        for name in ("last1", "last2"):
            members[name] = Member(name, cluster, watch, random, kind)
        await settle(fake, watch)
        for member in members.values():
            await member.close()
    check_commits(fake)


def check_commits(fake: FakeCluster) -> None:
    committed: dict[tuple[str, int], int] = {}
    for _, topic, partition, offset in fake.commits:
        assert offset >= committed.get((topic, partition), 0), f"{topic}-{partition} went back to {offset}"
        committed[topic, partition] = offset


async def settle(fake: FakeCluster, watch: Watch) -> None:
    """Every record is processed in the end."""
    ends = {number: part.end_offset for number, part in enumerate(fake.topics["t"].partitions)}
    wanted = {(number, offset) for number, end in ends.items() for offset in range(end)}
    for _ in range(400):
        if watch.finished >= wanted:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"no member finished {sorted(wanted - watch.finished)[:10]}")


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_processed_by_one_member(seed: int, kind: str) -> None:
    """Under every assignor and both protocols."""
    virtual_loop.run(play(seed, kind))
