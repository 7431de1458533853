"""A group is migrated to the new protocol and back while its members are replaced one by one under load: no
record is lost, and no position goes back."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition
from waiting import wait_for

OLD: dict[str, dict[str, Any]] = {
    # Slow heartbeats: some members lag behind the group epoch when the last one of the new protocol leaves.
    "eager": {"assignors": ["range"], "heartbeat_interval_ms": 1_500},
    "cooperative": {"assignors": ["cooperative-sticky"]},
}
NEW: dict[str, Any] = {"group_protocol": "consumer"}
PARTITIONS, MEMBERS = 6, 3
PLACES = [TopicPartition("t", number) for number in range(PARTITIONS)]
Place = tuple[int, int]


@pytest.fixture
def cluster() -> Iterator[headrace.LocalCluster]:
    """Two nodes with short group timeouts."""
    with headrace.local(
        nodes=2,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1_000,
        group_consumer_heartbeat_interval_ms=100,
    ) as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", PARTITIONS, 2)).raise_for_errors()
        yield cluster


class Load:
    """A producer that sends until it is stopped; `sent`: partition and offset of acknowledged records."""

    def __init__(self, cluster: headrace.LocalCluster) -> None:
        self.sent: set[Place] = set()
        self._is_over = threading.Event()
        self._producer = cluster.producer(linger_ms=0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            futures = [self._producer.send("t", b"%d" % number, partition=each) for each in range(PARTITIONS)]
            self.sent |= {(done.partition, done.offset) for done in (future.result(60) for future in futures)}
            number += 1

    def end(self) -> set[Place]:
        self._is_over.set()
        self._thread.join(60)
        self._producer.close()
        return self.sent


class Reader:
    """A member in a thread of its own, with the blocking or the asyncio API."""

    def __init__(self, cluster: headrace.LocalCluster, face: str, options: dict[str, Any]) -> None:
        self.seen: list[Place] = []
        self.share: tuple[TopicPartition, ...] = ()
        self.lost: list[Any] = []
        self.failure: BaseException | None = None
        self._is_over = threading.Event()
        self._bootstrap = cluster.bootstrap
        self._options = {
            "group": "g",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 100,
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 10_000,
            "max_poll_records": 50,
            "listener": self,
            **options,
        }
        self._thread = threading.Thread(target=self._run if face == "sync" else self._run_aio)
        self._thread.start()

    def on_lost(self, _consumer: Any, tps: Any) -> None:
        self.lost.append(tps)

    def _run(self) -> None:
        try:
            with headrace.Consumer("t", bootstrap=self._bootstrap, **self._options) as consumer:
                while not self._is_over.is_set():
                    self._saw(consumer.poll(0.05))
                    self.share = consumer.assignment()
                consumer.commit()  # the last batch: no later poll commits it
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.failure = error

    def _run_aio(self) -> None:
        async def read() -> None:
            async with headrace.aio.AsyncConsumer(
                "t", bootstrap=self._bootstrap, **self._options
            ) as consumer:
                while not self._is_over.is_set():
                    self._saw(await consumer.poll(0.05))
                    self.share = await consumer.assignment()
                await consumer.commit()

        try:
            asyncio.run(read())
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.failure = error

    def _saw(self, records: list[Any]) -> None:
        self.seen += [(record.partition, record.offset) for record in records]

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.failure is None, self.failure


class Group:
    """The members, and the committed offsets so far."""

    def __init__(self, cluster: headrace.LocalCluster, face: str) -> None:
        self._cluster, self._face = cluster, face
        self._admin, self._asking = cluster.admin(), cluster.consumer(group="g", enable_auto_commit=False)
        self.members: list[Reader] = []
        self.former: list[Reader] = []
        self._committed = dict.fromkeys(PLACES, 0)

    def join(self, options: dict[str, Any]) -> None:
        self.members.append(Reader(self._cluster, self._face, options))
        self.settled()

    def replace(self, place: int, options: dict[str, Any]) -> None:
        leaving, self.members[place] = self.members[place], Reader(self._cluster, self._face, options)
        self.settled(PARTITIONS // (MEMBERS + 1))
        leaving.close()
        self.former.append(leaving)
        self.settled()

    def settled(self, least: int = 1) -> None:
        """Wait until each partition has one owner and each member reads; no committed offset decreases."""
        wait_for(lambda: self._is_shared(least), "each partition has one owner", evidence=self._shares)
        counts = [len(member.seen) for member in self.members]
        wait_for(
            lambda: all(len(m.seen) > count for m, count in zip(self.members, counts, strict=True)),
            "every member reads more records",
            evidence=self._shares,
        )
        for tp, offset in self.committed().items():
            assert offset >= self._committed[tp], f"{tp} went back"
            self._committed[tp] = offset

    def committed(self) -> dict[TopicPartition, int]:
        found = self._asking.committed(*PLACES)
        return {tp: 0 if each is None else each.offset for tp, each in found.items()}

    def protocol(self) -> str:
        return str(self._admin.describe_groups("g")["g"].group_type)

    def _is_shared(self, least: int) -> bool:
        assert [member.failure for member in self.members if member.failure] == []
        return min(len(member.share) for member in self.members) >= least

    def _shares(self) -> str:
        return str([(member.share, len(member.seen), member.lost) for member in self.members])


@pytest.mark.parametrize(("kind", "face"), [("eager", "sync"), ("cooperative", "aio")])
def test_group_migrates_and_returns_under_load(cluster: headrace.LocalCluster, kind: str, face: str) -> None:
    """A member of the other protocol joins, one of the old leaves, until all are replaced; then back."""
    load, group = Load(cluster), Group(cluster, face)
    try:
        for _ in range(MEMBERS):
            group.join(OLD[kind])
        assert group.protocol() == "classic"
        for place in range(MEMBERS):
            group.replace(place, NEW)
            assert group.protocol() == "consumer", (
                "the group converts with its first member of the new protocol"
            )
        for place in range(MEMBERS):
            group.replace(place, OLD[kind])
        wait_for(lambda: group.protocol() == "classic", "the last member of the new protocol has left")
        group.settled()
        sent = load.end()
        everyone = [*group.former, *group.members]
        wait_for(lambda: {place for each in everyone for place in each.seen} >= sent, "all records were read")
    finally:
        load.end()
        for member in group.members:
            member.close()
    ends = {TopicPartition("t", partition): offset + 1 for partition, offset in sorted(sent)}
    assert group.committed() == ends
    assert [each.lost for each in everyone] == [[]] * (3 * MEMBERS), "no member was fenced"
    seen = [place for each in everyone for place in each.seen]
    assert len(seen) == len(set(seen)), "a clean migration reads no record twice"
