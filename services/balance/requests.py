"""What the runs of this package ask of a cluster. Pure.

A run is a generator: it yields requests, and gets the response of each, or its error, before it goes on.
`requests_io.py` performs them with the admin client, the simulator (tests/sim) over its network.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.admin.admin_types import Resource
    from ...protocol.model import TopicPartition
    from .model import Nodes, Plan

T = TypeVar("T")
Steps = Generator["Request", Any, T]
FAILURES = (HeadraceError, ExceptionGroup)  # of a request: perhaps it was carried out


@dataclass(frozen=True, slots=True)
class ReadNodes:
    """Response: the NodeState of each registered node by id."""


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """Response: Facts, with the traffic of `sample_s` seconds."""

    sample_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListMoves:
    """Response: the reassignments in progress, by partition the nodes that copy it. `places` None: all."""

    places: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reassign:
    """Begin reassignments; None as target cancels one. Response: the errors of those that were refused."""

    targets: Mapping[TopicPartition, Nodes | None]


@dataclass(frozen=True, slots=True)
class ReadReplicas:
    """Response: by partition all its replicas, of those topics that exist; replicas that are being added or
    removed are included. `topics` None: all."""

    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReadSizes:
    """Response: by partition the bytes of each of these nodes; nodes that do not answer are left out."""

    copies: Mapping[TopicPartition, Nodes]


@dataclass(frozen=True, slots=True)
class ReadThrottled:
    """Response: the names of the topics that have a list of throttled replicas."""


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """Response: the value of a config that was set for the resource, or None."""

    resource: Resource
    name: str


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Set configs; None deletes one. Errors: those of each resource."""

    changes: Mapping[Resource | str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """Elect the preferred leaders. Partitions where that is not possible now are left to the controller."""

    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Carry out a plan."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class StopNode:
    """End the process of the node."""

    node_id: int


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove the registration of a fenced node."""

    node_id: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """Continue after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A line for the operator."""

    text: str


Request = (
    ReadNodes
    | ReadFacts
    | ListMoves
    | Reassign
    | ReadReplicas
    | ReadSizes
    | ReadThrottled
    | ReadConfig
    | AlterConfigs
    | ElectPreferred
    | CarryOut
    | StopNode
    | Unregister
    | Sleep
    | Report
)


@dataclass(frozen=True, slots=True)
class Pace:
    """`throttle`: bytes per second that each node sends and fetches, None for no limit. `patience_s`: how
    long a run waits for a node or a controller that does not answer. `clock`: seconds."""

    clock: Callable[[], float]
    throttle: int | None = None
    max_concurrent: int = 10
    patience_s: float = 60.0
    poll_s: float = 0.5

    def insist(self, work: Callable[[], Steps[T]]) -> Steps[T]:
        """The result of `work`, begun again while the controller changes or a node does not answer. Errors:
        those of the requests, after `patience_s`."""
        until_s = self.clock() + self.patience_s
        while True:
            try:
                return (yield from work())
            except FAILURES:
                if self.clock() >= until_s:
                    raise
            yield Sleep(self.poll_s)
