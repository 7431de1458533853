"""The coordinators of a node: the shards of the partitions that it leads, and the routing of requests to
them.

Pure; runs in the node's event loop, see storage_node/embedded/contract.py.
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
from ...protocol.metadata.features import GROUP_VERSION, STREAMS_VERSION, level_of
from ...protocol.model import NO_NODE
from ...runtime.telemetry.coordinator_table import WAITING
from ...runtime.timing_wheel import TimingWheel
from .find_coordinator import CoordinatorFinder
from .hosted_shard import HostedShard, ShardServices
from .lag_collector import LagCollector
from .metrics import CoordinatorMetrics, by_topic
from .pending_requests import MergedResponse, MultiKeyResponse, PendingRequest, responder_of
from .ports import Outcome, ProducerIdAndEpoch
from .producer_ids import ProducerIds
from .routing import ROUTES, AllShards, ManyKeys, OneKey
from .timers import ShardTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...protocol.transport.replies import Incoming
    from ...runtime.telemetry.samples import Samples
    from ...storage_node.embedded.contract import CoordinatorHost, Now, PartitionKey
    from .hosted_shard import MakeShard, RecordCodec
    from .lag_figures import LagFigures
    from .routing import Route
    from .timers import Action, Wheel

IDS_TIMEOUT_MS = 10_000
_IDS = "producer ids"
# The feature without which an api is disabled, and the name of its protocol
_FEATURES = {
    registry.CONSUMER_GROUP_HEARTBEAT.key: (GROUP_VERSION, "consumer group"),
    registry.CONSUMER_GROUP_DESCRIBE.key: (GROUP_VERSION, "consumer group"),
    registry.STREAMS_GROUP_HEARTBEAT.key: (STREAMS_VERSION, "streams group"),
    registry.STREAMS_GROUP_DESCRIBE.key: (STREAMS_VERSION, "streams group"),
}


class Coordinators:
    """Implements EmbeddedCoordinators.

    Bound: at most `purgatory.max.requests` requests (counted per shard) wait.
    """

    def __init__(
        self, host: CoordinatorHost, shards: Mapping[str, MakeShard], codec: RecordCodec, now_ms: int
    ) -> None:
        """`shards`: the constructor of the state machine of each internal topic."""
        self._host = host
        self._makers = shards
        self._wheel: Wheel = TimingWheel(now_ms=now_ms)
        self._metrics = {topic: CoordinatorMetrics(topic) for topic in shards}
        load_times = {topic: metrics.load_times for topic, metrics in self._metrics.items()}
        self._parts = ShardServices(
            host, codec, self._wheel, self._next_producer_id, load_times, self._has_work, self._restart
        )
        self._shards: dict[PartitionKey, HostedShard] = {}
        self._by_session: dict[int, dict[PendingRequest, None]] = {}  # in the order of arrival
        self._waiting = 0
        self._busy: dict[HostedShard, None] = {}  # with requests of this turn, in the order of arrival
        self._finder = CoordinatorFinder(host)
        self._ids: ProducerIds | None = None
        self._timers = ShardTimers(self._wheel, _act)
        self._lag = LagCollector(host, self._shards, self._timers)

    # --- requests -------------------------------------------------------------------------------------------

    def handle(self, request: Incoming, now: Now) -> None:
        """Route one request; its response is sent now or later. Errors: KafkaError, which becomes the
        response."""
        config = self._host.config.now
        if request.api.key == registry.FIND_COORDINATOR.key:
            found = self._finder.answer(request.body, config.max_request_partitions)
            self._host.replies.reply(request, found)
            return
        feature, protocol = _FEATURES.get(request.api.key, ("", ""))
        if feature and not level_of(self._host.image, feature):
            raise UnsupportedVersionError(f"the {protocol} protocol is disabled: {feature} is 0")
        if self._waiting >= config.purgatory_max_requests:
            raise ThrottlingQuotaExceededError(
                f"{self._waiting} requests wait for coordinators of this node, the most that"
                " purgatory.max.requests allows"
            )
        if request.api.key == registry.INIT_PRODUCER_ID.key and request.body.transactional_id is None:
            self._host.replies.reply(request, InitProducerIdResponse(0, self._next_producer_id(now.ms), 0))
            return
        route: Route = ROUTES[request.api.key]
        if isinstance(route, OneKey):
            self._ask_one(request, route)
        elif isinstance(route, ManyKeys):
            self._ask_many(request, route, config.max_request_partitions)
        else:
            self._ask_all(request, route)

    def _ask_one(self, request: Incoming, route: OneKey) -> None:
        shard = self._shard_of(route.topic, route.key(request.body))
        shard.handle(
            request.api, request.body, self._token(request, responder_of(request, self._host.replies))
        )

    def _ask_many(self, request: Incoming, route: ManyKeys, max_items: int) -> None:
        items = getattr(request.body, route.items)
        if len(items) > max_items:
            raise InvalidRequestError(
                f"the request has {len(items)} {route.items}, at most {max_items} are allowed"
            )
        answers = MultiKeyResponse(request, route, items, self._host.replies)
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

    def _ask_all(self, request: Incoming, route: AllShards) -> None:
        shards = [shard for shard in self._shards.values() if shard.name.topic == route.topic]
        answers = MergedResponse(request, route, len(shards), self._host.replies)
        for shard in shards:
            shard.handle(request.api, request.body, self._token(request, answers.fill))

    def _shard_of(self, topic: str, key: str) -> HostedShard:
        """Errors: NotCoordinatorError if this node does not lead the partition of the key."""
        image = self._host.image.topics.get(topic)
        if image is not None:
            partition = partition_of_id(key, len(image.partitions))
            shard = self._shards.get((image.topic_id, partition))
            if shard is not None:
                return shard
        raise NotCoordinatorError(f"node {self._host.node_id} is not the coordinator of {key[:100]!r}")

    def _token(self, request: Incoming, deliver: Callable[[Any], None]) -> PendingRequest:
        token = PendingRequest(request, deliver, self._closed)
        self._waiting += 1
        self._by_session.setdefault(token.session, {})[token] = None
        return token

    def _closed(self, token: PendingRequest) -> None:
        self._waiting -= 1
        mine = self._by_session[token.session]
        mine.pop(token, None)
        if not mine:
            del self._by_session[token.session]

    # --- turns of the event loop ----------------------------------------------------------------------------

    def _has_work(self, shard: HostedShard) -> None:
        self._busy[shard] = None
        self._host.schedule_end_turn()

    def end_turn(self, now: Now) -> None:
        """Each shard decides on the requests of this turn."""
        busy, self._busy = self._busy, {}
        for shard in busy:
            shard.work(now)

    def _restart(self, shard: HostedShard, now: Now) -> None:
        """The shard's state differs from its log: load it again."""
        self.resigned(shard.key)
        self.elected(shard.key, shard.name, shard.epoch, now)

    # --- producer ids ---------------------------------------------------------------------------------------

    def _next_producer_id(self, now_ms: int) -> int:
        """Errors: CoordinatorLoadInProgressError while a block of ids is being fetched."""
        ids = self._known_ids()
        try:
            return ids.next_id()
        finally:
            self._fetch_ids(ids, now_ms)

    def _known_ids(self) -> ProducerIds:
        if self._ids is None:  # created at the first request: the node has its broker id by then
            self._ids = ProducerIds(self._host.node_id)
        return self._ids

    def _fetch_ids(self, ids: ProducerIds, now_ms: int) -> None:
        def poll(now: Now) -> Outcome:
            self._fetch_ids(ids, now.ms)
            return Outcome()

        request = ids.poll(now_ms, self._host.broker_epoch)
        if request is not None:
            api, answered = registry.ALLOCATE_PRODUCER_IDS, partial(self._ids_came, ids)
            self._host.ask(NO_NODE, api, request, IDS_TIMEOUT_MS, answered)
        elif ids.due_ms is not None:
            self._timers.set(_IDS, ids.due_ms, poll)

    def _ids_came(self, ids: ProducerIds, answer: Any, now: Now) -> None:
        ids.answered(answer, now.ms)
        self._fetch_ids(ids, now.ms)

    # --- events of the node ---------------------------------------------------------------------------------

    def elected(self, key: PartitionKey, name: TopicPartition, leader_epoch: int, now: Now) -> None:
        """This node leads the partition: its shard starts to load."""
        make = self._makers.get(name.topic)
        if make is not None:
            shard = self._shards[key] = HostedShard(key, name, leader_epoch, make, self._parts)
            shard.load(now)
            self._lag.elected(now)

    def resigned(self, key: PartitionKey) -> None:
        """This node stopped leading the partition: its shard is dropped."""
        shard = self._shards.pop(key, None)
        if shard is not None:
            self._metrics[shard.name.topic].drop(shard)
            self._lag.resigned(key)
            shard.close()

    def committed(self, key: PartitionKey, now: Now) -> None:
        """The high watermark of the partition has advanced."""
        shard = self._shards.get(key)
        if shard is not None:
            shard.committed(now)

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        """The metadata image has changed."""
        if self._ids is None:
            self._known_ids().want()
            self._fetch_ids(self._known_ids(), now.ms)
        for shard in self._shards.values():
            shard.on_metadata(image, delta, now)

    def ended_transaction(
        self, key: PartitionKey, producer_id: int, producer_epoch: int, *, is_commit: bool, offset: int
    ) -> None:
        """A transaction marker was appended to a led partition."""
        shard = self._shards.get(key)
        if shard is not None:
            shard.ended_transaction(
                ProducerIdAndEpoch(producer_id, producer_epoch), is_commit=is_commit, offset=offset
            )

    def connection_gone(self, session: int, now: Now) -> None:
        """Drop the requests of a closed connection: shards forget them, then their tokens close. Every shard
        is notified, because members of its groups may be gone with the connection."""
        gone = dict(self._by_session.get(session, ()))
        for shard in self._shards.values():
            shard.on_peer_gone(session, now)
        for token in gone:
            token.deliver(None)

    def expire(self, now: Now) -> None:
        """Fire due timers. Order: requests of this turn go first; after a pause of the process a heartbeat
        and the end of its session are due at the same time."""
        self.end_turn(now)
        for due in self._wheel.advance(now.ms):
            due.fire(now)

    def next_deadline_ms(self) -> int | None:
        return self._wheel.next_deadline_ms()

    @property
    def lag_figures(self) -> LagFigures:
        """The lag of the groups that this node coordinates, as last counted."""
        return self._lag.figures

    def status(self) -> dict[str, Any]:
        """JSON-able status: shards by topic and state, metrics under Kafka's names, consumer lag."""
        states: dict[str, Counter[str]] = {}
        for shard in self._shards.values():
            states.setdefault(shard.name.topic, Counter())[shard.state.value] += 1
        shards = by_topic(self._metrics, self._shards.values())
        return {
            "waiting_requests": self._waiting,
            "shards": {topic: dict(found) for topic, found in sorted(states.items())},
            "metrics": dict(self._metrics[topic].as_json(mine) for topic, mine in shards.items()),
            "consumer_lag": self._lag.figures.as_json(),
        }

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Part of EmbeddedCoordinators."""
        samples.set(WAITING, self._waiting)
        for topic, mine in by_topic(self._metrics, self._shards.values()).items():
            self._metrics[topic].write(samples, mine)
            yield
        yield from self._lag.figures.pieces(samples)


def _act(action: Action, now: Now) -> None:
    action(now)
