"""Arguments and results of the admin client: frozen values, and `Results` for plural calls. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ...protocol.model import effective_min_isr
from ..foreign_names import refuse_foreign

if TYPE_CHECKING:
    from ...protocol.errors import KafkaError
    from ..cluster.network import Address

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Results(Mapping[K, V], Generic[K, V]):
    """The outcome per item of a plural call, in the order of the call.

    Reading an item gives its value or raises its error; `errors` tells which failed without raising.
    """

    def __init__(self, outcomes: Mapping[K, V | BaseException]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, key: K) -> V:
        outcome = self._outcomes[key]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def errors(self) -> dict[K, BaseException]:
        """The items that failed, with their errors."""
        return {key: outcome for key, outcome in self._outcomes.items() if isinstance(outcome, BaseException)}

    def raise_for_errors(self) -> None:
        """Raise an ExceptionGroup of all errors, each noted with its item; nothing without errors."""
        failed = self.errors
        if failed:
            for key, error in failed.items():
                note = f"for {key!r}"
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
            raise BaseExceptionGroup(f"{len(failed)} of {len(self)} items failed", list(failed.values()))

    def __repr__(self) -> str:
        return f"Results({self._outcomes!r})"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. None takes the cluster's default; `assignments` has the replicas of each partition
    (preferred leader first) in place of counts."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, Any] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    if not TYPE_CHECKING:

        def __new__(cls, *_facts, **named):
            """Errors: TypeError for a parameter name of another client, such as num_partitions, with ours."""
            refuse_foreign({name: value for name, value in named.items() if name not in NAMES_OF_NEW_TOPIC})
            return object.__new__(cls)


NAMES_OF_NEW_TOPIC = tuple(each.name for each in fields(NewTopic))


@dataclass(frozen=True, slots=True)
class CreatedTopicInfo:
    """A topic that was created (or would be, with validate_only; its id is empty then)."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class TopicListing:
    """One topic of the cluster."""

    name: str
    topic_id: bytes
    partitions: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition for operators. `leader` is -1 while there is none; replicas are node ids, the preferred
    leader first. A member of the ELR has every acknowledged record and may lead once the ISR is empty;
    `last_known_elr` is the last leader when both are empty."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()

    @property
    def replication_factor(self) -> int:
        """The replicas without those that a reassignment is adding."""
        return len(self.replicas) - len(self.adding_replicas)

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than the partition should have."""
        return len(self.isr) < self.replication_factor

    @property
    def is_unavailable(self) -> bool:
        """Whether the partition has no leader."""
        return self.leader < 0 or self.leader in self.offline_replicas

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Whether acks=all fails with this min.insync.replicas."""
        return self.is_unavailable or len(self.isr) < effective_min_isr(min_isr, len(self.replicas))

    def is_at_min_isr(self, min_isr: int) -> bool:
        """Whether acks=all fails as soon as one more replica is lost."""
        return not self.is_unavailable and len(self.isr) == effective_min_isr(min_isr, len(self.replicas))


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic and its partitions by number."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class ElectionType(IntEnum):
    """PREFERRED: the first assigned replica, if it is in sync. UNCLEAN: any live replica, which may lose
    records."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition whose reassignment goes on: `replicas` are all current ones, the target first."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The target replicas."""
        return tuple(node for node in self.replicas if node not in self.removing_replicas)


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """The result of a drain.

    `leaders_left`: partitions that the node still leads, because no other replica may lead them now.
    `below_min_isr`: partitions with a replica on the node whose ISR is smaller than min.insync.replicas, so
    that producers with acks=all get NotEnoughReplicasError; `topics_below_min_isr`: up to 20 of their topics,
    sorted.
    """

    node_id: int
    leaders_left: int
    below_min_isr: int = 0
    topics_below_min_isr: tuple[str, ...] = ()


class NodeState(StrEnum):
    """FENCED: without heartbeats, or starting. SHUTTING_DOWN: moves its leaders to other nodes, to stop or
    because it is drained."""

    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One registered storage node."""

    node_id: int
    address: Address
    rack: str | None
    state: NodeState = NodeState.ACTIVE
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class QuorumReplicaInfo:
    """A controller as the leader sees it: `lag` in records; times in ms before the response, -1 if
    unknown."""

    replica_id: int
    directory_id: bytes
    log_end_offset: int
    lag: int
    last_fetch_ago_ms: int
    last_caught_up_ago_ms: int
    address: Address


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The controller quorum: leader, epoch, high watermark, voters and observers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaInfo, ...]
    observers: tuple[QuorumReplicaInfo, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster id, the controller, and the unfenced (or all registered) nodes."""

    cluster_id: str
    controller_id: int
    nodes: tuple[NodeInfo, ...]


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one node."""

    topic: str
    partition: int
    node_id: int


@dataclass(frozen=True, slots=True)
class LogDirReplicaInfo:
    """One log in a log dir. `offset_lag`: records up to the high watermark that it lacks; if `is_future`, up
    to the log in another dir that it will replace."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirInfo:
    """One log dir of a node. `error` is set when it is offline; sizes are those of its file system, -1 if
    unknown; `detail` describes a problem, such as a full disk."""

    path: str
    error: KafkaError | None
    replicas: tuple[LogDirReplicaInfo, ...]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    detail: str


class ConfigSource(IntEnum):
    """The source of a config value, the strongest first: a topic, group or subscription, one node, all nodes,
    the start configuration of the node (or controller), the default. Kafka's numbers."""

    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC = 4
    BUILT_IN = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(IntEnum):
    """The type of a config value. Kafka's numbers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource with configs: a topic, a group or a subscription to client metrics by name, or a broker by
    node id ("" for the default of all)."""

    kind: str  # "topic", "broker", "broker-loggers", "group" or "client-metrics"
    name: str

    @classmethod
    def topic(cls, name: str) -> Resource:
        return cls("topic", name)

    @classmethod
    def group(cls, name: str) -> Resource:
        """A group, existing or not."""
        return cls("group", name)

    @classmethod
    def client_metrics(cls, name: str) -> Resource:
        """A subscription to client metrics, existing or not."""
        return cls("client-metrics", name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> Resource:
        """One storage node, or the default of all."""
        return cls("broker", "" if node_id is None else str(node_id))

    @classmethod
    def broker_loggers(cls, node_id: int) -> Resource:
        """The loggers of a storage node's process; their configs are levels by logger name (KIP-412)."""
        return cls("broker-loggers", str(node_id))


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """The value of a config at one level, under its name there; None hides a sensitive value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One effective config value, as text; None hides a sensitive one. `is_default`: not set at this very
    resource. `synonyms` are all levels with a value, the effective one first."""

    name: str
    value: str | None
    source: ConfigSource
    is_default: bool
    doc: str = ""
    is_read_only: bool = False
    is_sensitive: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """One change of a list config: "append" or "subtract"; plain values set, None deletes."""

    operation: str
    value: Any


def append(value: Any) -> AlterConfig:
    """Append to a list config."""
    return AlterConfig("append", value)


def subtract(value: Any) -> AlterConfig:
    """Remove from a list config."""
    return AlterConfig("subtract", value)


class _AnyName:
    """Matches every name, and the default entity."""

    def __repr__(self) -> str:
        return "ANY_NAME"


ANY_NAME = _AnyName()


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """`low_watermark`: no live replica of the partition has records below it."""

    low_watermark: int


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Which offset to look up: one of the constants, or a time in ms."""

    timestamp: int


EARLIEST, LATEST, MAX_TIMESTAMP = OffsetSpec(-2), OffsetSpec(-1), OffsetSpec(-3)
