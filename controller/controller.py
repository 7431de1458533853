"""The controller's core: decides what happens to the cluster, and holds the image that its log makes. Pure.

Shape: `decide` looks at the image and a request and gives records and a reply; it changes no hard state.
`apply` is the only way the image changes; a restart is `apply` from the log. The shell appends the records
of a decision, applies them, makes them durable, and only then replies and publishes. If an append or a flush
fails, the process ends and the image is built anew from the log.
Invariants: see `check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.errors import KafkaError, UnsupportedVersionError
from ..protocol.messages import control
from ..protocol.metadata.records import FormatRecord
from ..protocol.metadata.replay import replay
from ..protocol.model import NO_NODE
from .state.brokers import Brokers
from .state.configs import Configs
from .state.decision import Decision
from .state.sessions import Sessions
from .state.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..protocol.metadata.image import MetadataDelta, MetadataImage
    from ..protocol.metadata.records import MetadataRecord
    from .config import ControllerConfig
    from .state.decision import Randomness


class Controller:
    """Decides and applies. `image` has everything that was decided, durable already or not yet."""

    def __init__(
        self, config: ControllerConfig, randomness: Randomness, image: MetadataImage, now_ms: int
    ) -> None:
        """Nodes that were active in `image` have one session timeout from `now_ms` to be heard."""
        self.image = image
        self.sessions = Sessions(config.broker_session_timeout_ms)
        self.sessions.restart(sorted(n for n, b in image.brokers.items() if not b.is_fenced), now_ms)
        # Twice the shell's period: longer than this between two ticks means that we stood still.
        self._stall_ms = 2 * tick_interval_ms(config)
        self._last_tick_ms = now_ms
        self._brokers = Brokers(config, self.sessions)
        self._topics = Topics(config, randomness)
        self._configs = Configs(config)
        self._decide: dict[type, Callable[[Any, int], Decision]] = {
            control.BrokerRegistrationRequest: self._decide_registration,
            control.BrokerHeartbeatRequest: self._decide_heartbeat,
            control.UnregisterBrokerRequest: self._decide_unregistration,
            control.CreateTopicsRequest: lambda r, _: self._topics.decide_create(self.image, r),
            control.DeleteTopicsRequest: lambda r, _: self._topics.decide_delete(self.image, r),
            control.CreatePartitionsRequest: lambda r, _: self._topics.decide_grow(self.image, r),
            control.IncrementalAlterConfigsRequest: lambda r, _: self._configs.decide_alter(self.image, r),
            control.DescribeConfigsRequest: lambda r, _: self._configs.describe(self.image, r),
        }

    def decide(self, request: Any, now_ms: int) -> Decision:
        """What to record and to answer.

        Errors: a KafkaError that answers the whole request, where its response has no room for one;
        nothing is recorded then.
        """
        decide = self._decide.get(type(request))
        if decide is None:
            raise UnsupportedVersionError(f"the controller does not serve {type(request).__name__}")
        return decide(request, now_ms)

    def decide_format(self, cluster_id: str) -> tuple[MetadataRecord, ...]:
        """The first record of a new cluster, or nothing if the log has begun."""
        return () if self.image.cluster_id else (FormatRecord(cluster_id),)

    def decide_expiry(self, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Records that fence one silent node. Apply them and ask again until there are none."""
        return self._brokers.decide_expiry(self.image, now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to here. If it came in a jump, no node could be heard meanwhile: give them the time
        back, so that a stopped or swapped-out controller does not fence the whole cluster on waking."""
        gap_ms = now_ms - self._last_tick_ms
        if gap_ms > self._stall_ms:
            self.sessions.extend(gap_ms)
        self._last_tick_ms = now_ms

    def apply(self, base_offset: int, records: Sequence[MetadataRecord]) -> MetadataDelta:
        """Take the records of one decision into the image; the first has offset `base_offset`."""
        self.image, delta = replay(self.image, base_offset, records)
        return delta

    def check(self) -> None:
        """Assert the laws of the image; tests call this after every step."""
        image = self.image
        assert len(image.topics) == len(image.topic_names)
        for topic in image.topics.values():
            assert image.topic_names[topic.topic_id] == topic.name
            assert topic.partitions, "a topic has at least one partition"
            for partition in topic.partitions:
                assert partition.isr, "the last member stays in the ISR"
                assert set(partition.isr) <= set(partition.replicas)
                if partition.leader != NO_NODE:
                    assert partition.leader in partition.isr
                    assert not image.brokers[partition.leader].is_fenced, "only active nodes lead"
        assert all(resource[1] in image.topics for resource in image.configs)

    def _decide_registration(self, request: control.BrokerRegistrationRequest, now_ms: int) -> Decision:
        try:
            return self._brokers.decide_registration(self.image, request, now_ms)
        except KafkaError as error:
            return Decision((), control.BrokerRegistrationResponse(error.code, str(error)))

    def _decide_heartbeat(self, request: control.BrokerHeartbeatRequest, now_ms: int) -> Decision:
        try:
            return self._brokers.decide_heartbeat(self.image, request, now_ms)
        except KafkaError as error:
            return Decision((), control.BrokerHeartbeatResponse(error.code, str(error)))

    def _decide_unregistration(self, request: control.UnregisterBrokerRequest, _now_ms: int) -> Decision:
        try:
            return self._brokers.decide_unregistration(self.image, request)
        except KafkaError as error:
            return Decision((), control.UnregisterBrokerResponse(error.code, str(error)))


def tick_interval_ms(config: ControllerConfig) -> int:
    """How often the shell tells the time: often enough that a session runs out on time."""
    return max(5, config.broker_session_timeout_ms // 20)
