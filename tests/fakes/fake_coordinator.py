"""The group coordinator of `FakeCluster`: the real state machine, with a log in memory and the loop's timers.

`coordinator` is the id of the coordinating node; `move_coordinator` loads the log at another node, and
pending requests at the first get NOT_COORDINATOR.
"""

import asyncio
import functools
from collections.abc import Callable, Hashable
from typing import Any

from headrace.coordinators.group.shard import GroupShard
from headrace.coordinators.runtime.ports import NO_PRODUCER, Outcome, Record
from headrace.protocol import errors
from headrace.protocol.messages import groups
from headrace.protocol.messages.registry import ALL_APIS
from headrace.protocol.metadata import image
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.embedded.contract import Now

WALL_SHIFT_MS = 1_700_000_000_000
GROUP_APIS = {
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
    "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "DescribeGroups",
}  # fmt: skip
_APIS = {api.name: api for api in ALL_APIS}


class FakeToken:
    """A pending request."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.session, self.client_id, self.client_host = 1, "client", "host"

    def deliver(self, body: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(body)


class FakeTimers:
    """Timers of the event loop."""

    def __init__(self, decided: Callable[[Outcome], None], now: Callable[[], Now]) -> None:
        self._decided, self._now = decided, now
        self._handles: dict[Hashable, tuple[int, asyncio.TimerHandle]] = {}

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        self.cancel(key)

        def fire() -> None:
            del self._handles[key]
            self._decided(action(self._now()))

        delay_s = max(deadline_ms - self._now().ms, 0) / 1000
        self._handles[key] = (deadline_ms, asyncio.get_running_loop().call_later(delay_s, fire))

    def cancel(self, key: Hashable) -> None:
        if (found := self._handles.pop(key, None)) is not None:
            found[1].cancel()

    def deadline_of(self, key: Hashable) -> int | None:
        found = self._handles.get(key)
        return None if found is None else found[0]

    def clear(self) -> None:
        for key in list(self._handles):
            self.cancel(key)


class FakeCoordinator:
    """Mixin of `FakeCluster`; also the host of the shard."""

    topics: dict[str, Any]
    metadata_offset: int
    authorizer = None

    def __init__(self) -> None:
        self.coordinator = 0
        self.coordinator_epoch = 0
        self.node_config: dict[str, Any] = {"group.initial.rebalance.delay.ms": 10}
        self.group_log: list[Record] = []
        self.commits: list[tuple[str, str, int, int]] = []  # (group, topic, partition, offset), as applied
        self.image = image.MetadataImage()
        self._shard: GroupShard | None = None
        self._timers = FakeTimers(self._decided, self._now)

    # --- controls of tests --------------------------------------------------------------------------

    def move_coordinator(self, node_id: int) -> None:
        """Drop the shard, and load it at another node from the log."""
        self.coordinator, self.coordinator_epoch = node_id, self.coordinator_epoch + 1
        if self._shard is not None:
            self._timers.clear()
            for token in self._shard.close():
                token.deliver(errors.NotCoordinatorError())
            self._shard = None

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The last offset of each partition."""
        found = {}
        for name, topic, partition, offset in self.commits:
            if name == group:
                found[topic, partition] = offset
        return found

    def group_members(self, group: str) -> list[str]:
        """Ids of the members of a classic group."""
        found = self._loaded().groups.get(group)
        return [] if found is None else sorted(found.members)

    # --- host of the shard --------------------------------------------------------------------------

    @property
    def config(self) -> Any:
        return self

    @functools.cached_property
    def now(self) -> NodeConfig:
        return NodeConfig.of({"log.dirs": "d", **self.node_config})

    @property
    def timers(self) -> FakeTimers:
        return self._timers

    @property
    def node_id(self) -> int:
        return self.coordinator

    @property
    def epoch(self) -> int:
        return self.coordinator_epoch

    def _now(self) -> Now:
        ms = round(asyncio.get_running_loop().time() * 1000)
        return Now(ms, ms + WALL_SHIFT_MS)

    # --- answering ----------------------------------------------------------------------------------

    async def ask_group(self, api_name: str, body: Any, node_id: int) -> Any:
        """Send a request to the shard; every node answers FindCoordinator."""
        if api_name == "FindCoordinator":
            found = [groups.Coordinator(0, key, self.coordinator, "node", 9000) for key in body.keys]
            return groups.FindCoordinatorResponse(tuple(found))
        if node_id != self.coordinator:
            raise errors.NotCoordinatorError
        token = FakeToken()
        self._decided(self._loaded().handle(_APIS[api_name], body, token, self._now()))
        answer = await token.answer
        if isinstance(answer, errors.KafkaError):
            raise answer
        return answer

    def _loaded(self) -> GroupShard:
        self._follow()
        if self._shard is None:
            self._shard = GroupShard(0, self)  # type: ignore[arg-type]
            for offset, record in enumerate(self.group_log):
                self._shard.replay(record, offset, NO_PRODUCER)
            self._decided(self._shard.on_loaded(self._now()))
        return self._shard

    def _follow(self) -> None:
        if self.image.offset == self.metadata_offset:
            return
        brokers = {
            node: image.BrokerRegistration(node, 1, b"", "node", 9000, self.racks.get(node), (), False)  # type: ignore[attr-defined]
            for node in self.addresses  # type: ignore[attr-defined]
        }
        topics = {
            name: image.TopicImage(
                name,
                topic.topic_id,
                tuple(
                    image.PartitionRegistration(part.replicas, part.isr, part.leader, part.leader_epoch, 0)
                    for part in topic.partitions
                ),
            )
            for name, topic in self.topics.items()
        }
        names = {topic.topic_id: name for name, topic in topics.items()}
        self.image = image.MetadataImage(
            self.metadata_offset, "fake", brokers=brokers, topics=topics, topic_names=names
        )
        if self._shard is not None:
            self._decided(self._shard.on_metadata(self.image, None, self._now()))

    def _decided(self, outcome: Outcome) -> None:
        assert self._shard is not None
        for record in outcome.records:
            self._shard.replay(record, len(self.group_log), outcome.producer)
            self.group_log.append(record)
            key = record.key
            if type(key).__name__ == "OffsetCommitKey" and record.value is not None:
                self.commits.append((key.group, key.topic, key.partition, record.value.offset))
        for answer in outcome.answers:
            answer.token.deliver(answer.body)
        if outcome.on_committed is not None:
            self._decided(outcome.on_committed(self._now()))
