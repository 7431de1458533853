# Made by `python -m headrace.services.sync_clients` from clients/aio/replicas_admin_io.py: edit that file.
"""The synchronous admin client's part about the logs of single replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from ...protocol.model import TopicPartition
    from ..admin.admin_io import AdminEngine
    from ..admin.admin_types import Results
    from ..admin.replica_types import NodeReplicas

T = TypeVar("T")


class ReplicasAdmin:
    """Base of the admin client."""

    def describe_replicas(
        self,
        nodes: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> Results[int, NodeReplicas]:
        """The replicas of each node, also of partitions without a leader: offsets, size and traffic, and with
        `partitions` their leader epochs. Of all unfenced nodes or (`nodes`) of some."""
        return self._run(self._engine.replicas.describe(nodes, partitions, timeout=timeout))

    @property
    def _engine(self) -> AdminEngine:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError
