"""All coordinators of a node: the shards of the partitions that it leads, and the way of requests to them.

Pure; lives in the node's event loop as its guest, see storage_node/embedded/contract.py.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    InvalidRequestError,
    KafkaError,
    NotCoordinatorError,
    ThrottlingQuotaExceededError,
    UnsupportedVersionError,
)
from ...protocol.messages import registry
from ...protocol.messages.transactions import InitProducerIdResponse
from ...protocol.metadata.features import GROUP_VERSION, level_of
from ...protocol.model import NO_NODE
from ...runtime.timing_wheel import TimingWheel
from .finding import Finder
from .hosted_shard import HostedShard, Parts
from .metrics import CoordinatorMetrics, consumer_lag, metrics_of
from .ports import Now, Outcome, Stamp
from .producer_ids import ProducerIds
from .routing import ROUTES, Everywhere, Many, One
from .timers import ShardTimers
from .waiting import AllAnswers, ManyAnswers, Waiting, answer_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.transport.replies import Incoming
    from ...storage_node.embedded.contract import GuestHost, PartitionKey
    from .hosted_shard import MakeShard, RecordCodec
    from .routing import Route
    from .timers import Action, Wheel

IDS_TIMEOUT_MS = 10_000
_IDS = "producer ids"
_OF_NEW_GROUPS = (registry.CONSUMER_GROUP_HEARTBEAT.key, registry.CONSUMER_GROUP_DESCRIBE.key)


class Coordinators:
    """Fulfils Guest.

    Bound: `purgatory.max.requests` requests (counted by shard) wait at a time.
    """

    def __init__(self, host: GuestHost, shards: Mapping[str, MakeShard], codec: RecordCodec) -> None:
        """`shards` makes the state machines, by topic."""
        self._host = host
        self._makers = shards
        self._wheel: Wheel = TimingWheel(now_ms=host.now_ms)
        self._metrics = {topic: CoordinatorMetrics() for topic in shards}
        self._parts = Parts(
            host, codec, self._wheel, self._next_producer_id, self._metrics, self._has_work, self._restart
        )
        self._shards: dict[PartitionKey, HostedShard] = {}
        self._by_session: dict[int, dict[Waiting, None]] = {}  # in the order of their coming
        self._waiting = 0
        self._busy: dict[HostedShard, None] = {}  # with requests of this turn, in the order of their coming
        self._finder = Finder(host)
        self._ids: ProducerIds | None = None
        self._timers = ShardTimers(self._wheel, _act)

    # --- requests --------------------------------------------------------------------------------------

    def handle(self, request: Incoming) -> None:
        """One request, answered now or later. Errors: KafkaError, which is its answer."""
        config = self._host.config.now
        if request.api.key == registry.FIND_COORDINATOR.key:
            found = self._finder.answer(request.body, config.max_request_partitions)
            self._host.replies.reply(request, found)
            return
        if request.api.key in _OF_NEW_GROUPS and not level_of(self._host.image, GROUP_VERSION):
            raise UnsupportedVersionError("groups of the new protocol are switched off: group.version is 0")
        if self._waiting >= config.purgatory_max_requests:
            raise ThrottlingQuotaExceededError(f"{self._waiting} requests wait for coordinators already")
        if request.api.key == registry.INIT_PRODUCER_ID.key and request.body.transactional_id is None:
            self._host.replies.reply(request, InitProducerIdResponse(0, self._next_producer_id(), 0))
            return
        route: Route = ROUTES[request.api.key]
        if isinstance(route, One):
            self._ask_one(request, route)
        elif isinstance(route, Many):
            self._ask_many(request, route, config.max_request_partitions)
        else:
            self._ask_all(request, route)

    def _ask_one(self, request: Incoming, route: One) -> None:
        shard = self._shard_of(route.topic, route.key(request.body))
        shard.handle(request.api, request.body, self._token(request, answer_to(request, self._host.replies)))

    def _ask_many(self, request: Incoming, route: Many, max_items: int) -> None:
        items = getattr(request.body, route.items)
        if len(items) > max_items:
            raise InvalidRequestError(f"{len(items)} {route.items}, at most {max_items} are allowed")
        answers = ManyAnswers(request, route, items, self._host.replies)
        parts: dict[PartitionKey, list[int]] = {}
        for position, item in enumerate(items):
            try:
                shard = self._shard_of(route.topic, route.key(item))
            except KafkaError as error:
                answers.fill((position,), error)
            else:
                parts.setdefault(shard.key, []).append(position)
        for key, positions in parts.items():
            token = self._token(request, partial(answers.fill, positions))
            self._shards[key].handle(request.api, answers.part(positions), token)
        if not items:
            answers.finish_if_whole()

    def _ask_all(self, request: Incoming, route: Everywhere) -> None:
        shards = [shard for shard in self._shards.values() if shard.name.topic == route.topic]
        answers = AllAnswers(request, route, len(shards), self._host.replies)
        for shard in shards:
            shard.handle(request.api, request.body, self._token(request, answers.fill))

    def _shard_of(self, topic: str, key: str) -> HostedShard:
        """Errors: NotCoordinatorError, if this node does not lead the partition of the key."""
        image = self._host.image.topics.get(topic)
        if image is not None:
            partition = partition_of_id(key, len(image.partitions))
            shard = self._shards.get((image.topic_id, partition))
            if shard is not None:
                return shard
        raise NotCoordinatorError(f"node {self._host.node_id} does not coordinate {key[:100]!r}")

    def _token(self, request: Incoming, deliver: Callable[[Any], None]) -> Waiting:
        token = Waiting(request, deliver, self._closed)
        self._waiting += 1
        self._by_session.setdefault(token.session, {})[token] = None
        return token

    def _closed(self, token: Waiting) -> None:
        self._waiting -= 1
        mine = self._by_session[token.session]
        mine.pop(token, None)
        if not mine:
            del self._by_session[token.session]

    # --- turns -----------------------------------------------------------------------------------------

    def _has_work(self, shard: HostedShard) -> None:
        self._busy[shard] = None
        self._host.soon()

    def end_turn(self) -> None:
        """Each shard does what was asked of it within this turn."""
        busy, self._busy = self._busy, {}
        for shard in busy:
            shard.work()

    def _restart(self, shard: HostedShard) -> None:
        """What the shard knows is not what its log says: it is read again."""
        self.left(shard.key)
        self.led(shard.key, shard.name, shard.epoch)

    # --- producer ids ----------------------------------------------------------------------------------

    def _next_producer_id(self) -> int:
        """Errors: CoordinatorLoadInProgressError while a block of them is fetched."""
        ids = self._known_ids()
        try:
            return ids.next_id()
        finally:
            self._fetch_ids(ids)

    def _known_ids(self) -> ProducerIds:
        if self._ids is None:  # not before: by now the node has its own id
            self._ids = ProducerIds(self._host.node_id)
        return self._ids

    def _fetch_ids(self, ids: ProducerIds) -> None:
        def poll(_now: Now) -> Outcome:
            self._fetch_ids(ids)
            return Outcome()

        request = ids.poll(self._host.now_ms, self._host.broker_epoch)
        if request is not None:
            api, answered = registry.ALLOCATE_PRODUCER_IDS, partial(self._ids_came, ids)
            self._host.ask(NO_NODE, api, request, IDS_TIMEOUT_MS, answered)
        elif ids.due_ms is not None:
            self._timers.set(_IDS, ids.due_ms, poll)

    def _ids_came(self, ids: ProducerIds, answer: Any) -> None:
        ids.answered(answer, self._host.now_ms)
        self._fetch_ids(ids)

    # --- what the node tells ---------------------------------------------------------------------------

    def led(self, key: PartitionKey, name: TopicPartition, leader_epoch: int) -> None:
        """This node leads the partition: its shard begins to load."""
        make = self._makers.get(name.topic)
        if make is not None:
            shard = self._shards[key] = HostedShard(key, name, leader_epoch, make, self._parts)
            shard.load()

    def left(self, key: PartitionKey) -> None:
        """It does not lead it any more: the shard is dropped."""
        shard = self._shards.pop(key, None)
        if shard is not None:
            self._metrics[shard.name.topic].left(shard)
            shard.close()

    def committed(self, key: PartitionKey) -> None:
        """The high watermark has moved."""
        shard = self._shards.get(key)
        if shard is not None:
            shard.committed()

    def followed(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """The metadata has moved on, and knows this node."""
        if self._ids is None:
            self._known_ids().want()
            self._fetch_ids(self._known_ids())
        for shard in self._shards.values():
            shard.on_metadata(image, delta)

    def ended_transaction(
        self, key: PartitionKey, producer_id: int, producer_epoch: int, *, is_commit: bool, offset: int
    ) -> None:
        """A marker was appended to a led partition."""
        shard = self._shards.get(key)
        if shard is not None:
            shard.ended_transaction(Stamp(producer_id, producer_epoch), is_commit=is_commit, offset=offset)

    def connection_gone(self, session: int) -> None:
        """Nobody hears its answers: shards forget who waits, then their tokens close."""
        mine = self._by_session.get(session)
        if mine is None:
            return
        gone = dict(mine)
        for shard in self._shards.values():
            if not gone.keys().isdisjoint(shard.waiting):
                shard.on_peer_gone(session)
        for token in gone:
            token.deliver(None)

    def expire(self) -> None:
        """Fire what is due. Order: what was asked before goes first; after a pause a heartbeat and the end of
        its session are there at the same time."""
        self.end_turn()
        now = Now(self._host.now_ms, self._host.wall_ms)
        for due in self._wheel.advance(now.ms):
            due.fire(now)

    def next_deadline_ms(self) -> int | None:
        """When `expire` has work."""
        return self._wheel.next_deadline_ms()

    def status(self) -> dict[str, Any]:
        """JSON-able facts: by topic, how many shards are in which state; what they tell of themselves, under
        Kafka's names; how far groups are behind."""
        states: dict[str, Counter[str]] = {}
        for shard in self._shards.values():
            states.setdefault(shard.name.topic, Counter())[shard.state.value] += 1
        return {
            "waiting_requests": self._waiting,
            "shards": {topic: dict(found) for topic, found in sorted(states.items())},
            "metrics": metrics_of(self._metrics, self._shards.values()),
            "consumer_lag": consumer_lag(self._host, self._shards.values()),
        }


def _act(action: Action, now: Now) -> None:
    action(now)
