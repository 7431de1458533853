"""What the planner gets and returns: nodes, partitions, moves, and the imbalance per goal. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition

Nodes = tuple[int, ...]

GOALS = ("rack", "replicas", "disk", "leaders", "traffic")  # in order: none worsens an earlier one


@dataclass(frozen=True, slots=True)
class LogDirFacts:
    """One log dir of a node: its size and its free bytes, -1 if unknown; replicas by partition, in bytes."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, int]
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One storage node. `is_active`: it is not fenced and not shutting down; `is_cordoned`: it gets no new
    replicas. `capacity_bytes`: 0 if unknown."""

    node_id: int
    rack: str | None = None
    is_active: bool = True
    is_cordoned: bool = False
    capacity_bytes: int = 0
    free_bytes: int = -1
    log_dirs: tuple[LogDirFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition. `replicas` are the target replicas, the preferred leader first. `is_movable`: every
    replica is in sync and no reassignment is in progress; `is_copyable`: it has a leader and no reassignment,
    which is enough to leave an evacuated node. Rates are bytes per second from producers and to consumers."""

    place: TopicPartition
    replicas: Nodes
    leader: int
    size_bytes: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    is_movable: bool = True
    is_copyable: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at one moment."""

    nodes: tuple[NodeFacts, ...]
    partitions: tuple[PartitionFacts, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may change.

    `topics`: only their partitions (None: all). `nodes`: only moves from or to one of them. `excluded`: nodes
    that neither give nor get anything. `evacuated`: nodes that keep nothing. `max_moves`: partitions that
    change. `tolerance`: how far a node may be from the mean of disk usage and traffic, as a share of it.
    """

    topics: frozenset[str] | None = None
    nodes: frozenset[int] = frozenset()
    excluded: frozenset[int] = frozenset()
    evacuated: frozenset[int] = frozenset()
    max_moves: int | None = None
    tolerance: float = 0.1
    goals: tuple[str, ...] = GOALS


@dataclass(frozen=True, slots=True)
class Move:
    """The change of one partition's replicas; `copied_bytes` for all replicas that are added. Without an
    added replica only the preferred leader changes. `goal` is the first that asked for it."""

    place: TopicPartition
    before: Nodes
    after: Nodes
    size_bytes: int
    goal: str

    @property
    def added(self) -> Nodes:
        """The nodes that copy the partition."""
        return tuple(node_id for node_id in self.after if node_id not in self.before)

    @property
    def removed(self) -> Nodes:
        """The nodes that lose their replica."""
        return tuple(node_id for node_id in self.before if node_id not in self.after)

    @property
    def copied_bytes(self) -> int:
        """Bytes that cross the network."""
        return self.size_bytes * len(self.added)


@dataclass(frozen=True, slots=True)
class DirMove:
    """A replica that moves to another log dir of its node."""

    place: TopicPartition
    node_id: int
    before: str
    after: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How one quantity is spread over the nodes that take part: the smallest, mean and largest value."""

    smallest: float
    mean: float
    largest: float

    @property
    def imbalance(self) -> float:
        """How far the farthest node is from the mean, as a share of it."""
        if not self.mean:
            return 0.0
        return max(self.largest - self.mean, self.mean - self.smallest) / self.mean


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The state of a cluster by goal. `rack_misses`: racks that partitions could use in addition."""

    rack_misses: int
    replicas: Spread
    disk: Spread
    leaders: Spread
    traffic: Spread


@dataclass(frozen=True, slots=True)
class Plan:
    """Proposed moves. `stuck`: the partitions that must leave an evacuated node and cannot, with the
    reason."""

    moves: tuple[Move, ...]
    before: Imbalance
    after: Imbalance
    dir_moves: tuple[DirMove, ...] = ()
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def copied_bytes(self) -> int:
        """Bytes that cross the network."""
        return sum(move.copied_bytes for move in self.moves)

    def duration_s(self, bytes_per_s: int | None) -> float | None:
        """The time of the copies if each node sends and fetches at most this much; None without a limit."""
        if not bytes_per_s:
            return None
        sent: dict[int, float] = {}
        fetched: dict[int, float] = {}
        for move in self.moves:
            for node_id in move.added:
                fetched[node_id] = fetched.get(node_id, 0) + move.size_bytes
            sent[move.before[0]] = sent.get(move.before[0], 0) + move.copied_bytes
        return max((*sent.values(), *fetched.values()), default=0.0) / bytes_per_s


@dataclass(frozen=True, slots=True)
class Health:
    """What keeps a cluster from being balanced: node ids, and numbers of partitions. `silent`: active nodes
    that did not describe their log dirs."""

    inactive: tuple[int, ...]
    silent: tuple[int, ...]
    offline: int
    under_replicated: int
    reassigning: int

    def problem(self) -> str | None:
        """The problem in words; None if there is none."""
        if self.inactive:
            return f"node {self.inactive[0]} is fenced or shutting down"
        if self.silent:
            return f"node {self.silent[0]} does not answer"
        if self.offline:
            return f"{self.offline} partitions have no leader"
        if self.reassigning:
            return f"{self.reassigning} partitions are being reassigned"
        if self.under_replicated:
            return f"{self.under_replicated} partitions are under-replicated"
        return None


@dataclass(frozen=True, slots=True)
class Facts:
    """A cluster at one moment, and its health."""

    snapshot: Snapshot
    health: Health
