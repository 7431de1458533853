"""Performs the requests of runs with the admin client."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from ...clients.admin.admin_types import ElectionType, Resource
from ...protocol.errors import (
    ApiTimeoutError,
    HeadraceError,
    NetworkError,
    UnknownTopicOrPartitionError,
)
from ...runtime.waiting_io import let_pass
from ..network_status import pieces
from ..replication_throttle import FETCHING, SENDING
from . import requests as q
from .facts_io import describe_all, facts_of, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.admin.admin_types import NodeState
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from .model import Nodes, Plan
    from .requests import Steps

T = TypeVar("T")
MEASURE_S = 4.0  # sizes only show progress: a node that does not answer must not stop a run
UNKNOWN_OUTCOME = (ApiTimeoutError, NetworkError)
EVERY_REPLICA = "*"  # an operator's list: runs name each replica


def drive(steps: Steps[T], perform: Callable[[q.Request], Any]) -> T:
    """Perform the requests of a run until it ends; returns its result. Errors: those that the run raises. An
    interrupt is raised in the run, at any time, so that it cleans up."""
    try:
        return _drive(steps, perform, None)
    except BaseException as error:
        if inspect.getgeneratorstate(steps) != inspect.GEN_SUSPENDED:
            raise
        return _drive(steps, perform, error)


def _drive(steps: Steps[T], perform: Callable[[q.Request], Any], error: BaseException | None) -> T:
    answer: Any = None
    while True:
        try:
            request = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = error = None
        try:
            answer = perform(request)
        except BaseException as raised:  # noqa: BLE001 - the run decides
            error = raised


class AdminRequests:
    """`report` takes a line for the operator, `carry_out` a plan, `stop` the id of a node."""

    def __init__(
        self,
        admin: Admin,
        report: Callable[[str], None],
        *,
        carry_out: Callable[[Plan], object] | None = None,
        stop: Callable[[int], None] | None = None,
    ) -> None:
        self._admin = admin
        self._table: dict[type, Callable[[Any], Any]] = {
            q.ReadNodes: self._read_nodes,
            q.ReadFacts: lambda request: facts_of(admin, request.sample_s),
            q.ListMoves: self._list_moves,
            q.Reassign: self._reassign,
            q.ReadReplicas: self._read_replicas,
            q.ReadSizes: self._read_sizes,
            q.ReadThrottled: self._read_throttled,
            q.ReadConfig: self._read_config,
            q.AlterConfigs: self._alter_configs,
            q.ElectPreferred: self._elect,
            q.Unregister: lambda request: admin.unregister_broker(request.node_id),
            q.Sleep: lambda request: let_pass(request.seconds),
            q.Report: lambda request: report(request.text),
        }
        if carry_out is not None:
            self._table[q.CarryOut] = lambda request: carry_out(request.plan)
        if stop is not None:
            self._table[q.StopNode] = lambda request: stop(request.node_id)

    def perform(self, request: q.Request) -> Any:
        """The response. Errors: those of the client."""
        return self._table[type(request)](request)

    def _read_nodes(self, _request: q.ReadNodes) -> dict[int, NodeState]:
        return {node.node_id: node.state for node in self._admin.describe_cluster(include_fenced=True).nodes}

    def _list_moves(self, request: q.ListMoves) -> dict[TopicPartition, Nodes]:
        places = None if request.places is None else list(request.places)
        found = self._admin.list_partition_reassignments(places)
        return {place: tuple(move.adding_replicas) for place, move in found.items()}

    def _reassign(self, request: q.Reassign) -> dict[TopicPartition, BaseException]:
        errors = self._admin.alter_partition_reassignments(request.targets).errors
        for error in errors.values():
            if isinstance(error, UNKNOWN_OUTCOME):
                raise error
        return errors

    def _read_replicas(self, request: q.ReadReplicas) -> dict[TopicPartition, Nodes]:
        if request.topics is None:
            return {place_of(part): part.replicas for part in describe_all(self._admin)}
        topics = self._admin.describe_topics(*request.topics)
        for name, error in topics.errors.items():
            if not isinstance(error, UnknownTopicOrPartitionError):
                raise HeadraceError(f"{name}: {error}")
        return {
            place_of(part): part.replicas
            for name in request.topics
            if name not in topics.errors
            for part in topics[name].partitions
        }

    def _read_sizes(self, request: q.ReadSizes) -> dict[TopicPartition, list[int]]:
        nodes = sorted({node_id for copying in request.copies.values() for node_id in copying})
        found = self._admin.describe_replicas(nodes, partitions=list(request.copies), timeout=MEASURE_S)
        return {
            place: [
                replica.size_bytes
                for node_id in copying
                if node_id not in found.errors and (replica := found[node_id].replicas.get(place)) is not None
            ]
            for place, copying in request.copies.items()
        }

    def _read_throttled(self, _request: q.ReadThrottled) -> frozenset[str]:
        names = [item.name for item in self._admin.list_topics(internal=True)]
        throttled: set[str] = set()
        for piece in pieces(names):
            configs = self._admin.describe_configs(*(Resource.topic(name) for name in piece))
            throttled |= {
                resource.name
                for resource in configs
                if resource not in configs.errors
                and any(
                    configs[resource][name].value not in (None, "", EVERY_REPLICA)
                    for name in (SENDING, FETCHING)
                    if name in configs[resource]
                )
            }
        return frozenset(throttled)

    def _read_config(self, request: q.ReadConfig) -> str | None:
        found = self._admin.describe_configs(request.resource)[request.resource].get(request.name)
        return None if found is None else found.value

    def _alter_configs(self, request: q.AlterConfigs) -> None:
        self._admin.alter_configs(request.changes).raise_for_errors()

    def _elect(self, request: q.ElectPreferred) -> None:
        self._admin.elect_leaders(ElectionType.PREFERRED, request.places)
