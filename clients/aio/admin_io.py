"""The asyncio admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ClosedError
from ..admin.admin_io import AdminEngine
from ..admin.configs_io import resources_of
from ..cluster.network import Address
from ..config import AdminConfig
from .cluster_io import attach_async

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from ...protocol.model import TopicPartition
    from ..admin.admin_types import (
        ClusterDescription,
        ConfigValue,
        CreatedTopicInfo,
        DeletedRecords,
        DrainedNode,
        ElectionType,
        LogDirInfo,
        NewTopic,
        OffsetSpec,
        PartitionReassignment,
        QuorumDescription,
        Resource,
        Results,
        TopicDescription,
        TopicListing,
        TopicPartitionReplica,
    )
    from ..options import AdminOptions
    from ..records import OffsetAndTimestamp, TimestampLike
    from .cluster_io import AsyncCluster

T = TypeVar("T")


class AsyncAdmin:
    """Creates, describes, alters and deletes what a cluster holds; belongs to one event loop.

    Plural calls return `Results`: per item a value or an error. `timeout` is in seconds, None takes
    default.api.timeout.ms. `bootstrap` is as for `AsyncProducer`; other keyword arguments are keys of
    AdminConfig.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | AsyncCluster | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._cluster, self.config, self._owns_cluster = attach_async(bootstrap, AdminConfig, config, options)
        self._made: AdminEngine | None = None
        self._is_closed = False
        self._cluster.add(self)

    async def create_topics(
        self,
        *topics: NewTopic,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[str, CreatedTopicInfo]:
        """Create topics; with `validate_only` only say whether it could be done."""
        return await self._run(
            self._engine.create_topics(topics, validate_only=validate_only, timeout=timeout)
        )

    async def delete_topics(self, *names: str, timeout: float | None = None) -> Results[str, None]:
        """Delete topics with all their records."""
        return await self._run(self._engine.delete_topics(names, timeout=timeout))

    async def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> list[TopicListing]:
        """All topics by name; the cluster's own too with `internal`."""
        return await self._run(self._engine.list_topics(internal=internal, timeout=timeout))

    async def describe_topics(
        self,
        *names: str,
        timeout: float | None = None,
    ) -> Results[str, TopicDescription]:
        """Partitions, leaders and replicas of topics."""
        return await self._run(self._engine.describe_topics(names, timeout=timeout))

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Grow topics to a total number of partitions each."""
        return await self._run(
            self._engine.create_partitions(counts, validate_only=validate_only, timeout=timeout)
        )

    async def describe_configs(
        self,
        *resources: Resource | str,
        synonyms: bool = False,
        docs: bool = False,
        timeout: float | None = None,
    ) -> Results[Resource, dict[str, ConfigValue]]:
        """Effective configs by name; plain text names a topic. With `synonyms` what every level says, with
        `docs` what each key means."""
        wanted = resources_of(resources)
        return await self._run(
            self._engine.configs.describe(wanted, synonyms=synonyms, docs=docs, timeout=timeout)
        )

    async def alter_configs(
        self,
        changes: Mapping[Resource | str, Mapping[str, Any]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[Resource, None]:
        """Change single configs, leaving the others: a value sets, None goes back to the default, `append`
        and `subtract` edit lists. Plain text names a topic. All changes of a resource are made, or none; with
        `validate_only` none, but it is said whether they could be."""
        wanted = dict(zip(resources_of(changes), changes.values(), strict=True))
        return await self._run(
            self._engine.configs.alter(wanted, validate_only=validate_only, timeout=timeout)
        )

    async def list_config_resources(self, *, timeout: float | None = None) -> list[Resource]:
        """The topics and nodes that have configs of their own; a broker without a name is the cluster."""
        return await self._run(self._engine.configs.list_resources(timeout=timeout))

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """The cluster's id, controller and nodes; fenced ones too with `include_fenced`."""
        return await self._run(
            self._engine.replication.describe_cluster(include_fenced=include_fenced, timeout=timeout)
        )

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders now: the preferred ones, or (UNCLEAN) anybody for partitions that have none, which
        may lose records. None as partitions takes all; then those that need no election are left out."""
        return await self._run(
            self._engine.replication.elect_leaders(election_type, partitions, timeout=timeout)
        )

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Move partitions to these nodes, the preferred leader first, or cancel (None) what is under way. It
        has begun when this returns; `list_partition_reassignments` tells when it is over."""
        return await self._run(
            self._engine.replication.alter_partition_reassignments(
                reassignments,
                allow_replication_factor_change=allow_replication_factor_change,
                timeout=timeout,
            )
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments that are under way, of these partitions or (None) of all."""
        return await self._run(
            self._engine.replication.list_partition_reassignments(partitions, timeout=timeout)
        )

    async def drain_node(
        self, node_id: int, *, drained: bool = True, timeout: float | None = None
    ) -> DrainedNode:
        """Have a node hand over what it leads while it goes on running, and keep it so; `drained=False` takes
        that back. Call again to move what nobody else could take before."""
        return await self._run(self._engine.replication.drain_node(node_id, drained=drained, timeout=timeout))

    async def unregister_broker(self, node_id: int, *, timeout: float | None = None) -> None:
        """Forget a storage node that is gone for good: it is fenced and holds no replicas."""
        await self._run(self._engine.replication.unregister_broker(node_id, timeout=timeout))

    async def describe_log_dirs(
        self,
        nodes: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> Results[int, tuple[LogDirInfo, ...]]:
        """Per node its log dirs and what lies there, of all nodes that serve or (`nodes`) of some, all
        replicas or (`partitions`) some."""
        return await self._run(self._engine.log_dirs.describe(nodes, partitions, timeout=timeout))

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas to other log dirs of their nodes. It has begun when this returns, and
        `describe_log_dirs` shows the copies; naming the dir where one lies ends its move. A replica that
        is not there yet (ReplicaNotAvailableError) will be made in that dir."""
        return await self._run(self._engine.log_dirs.alter(moves, timeout=timeout))

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        """The controllers: who leads, who votes, and how far each one is."""
        return await self._run(self._engine.quorum.describe(timeout=timeout))

    async def add_raft_voter(
        self, voter_id: int, directory_id: bytes, address: tuple[str, int], *, timeout: float | None = None
    ) -> None:
        """Let a controller that follows the metadata log vote. `address` is where it listens, as (host,
        port); `describe_metadata_quorum` shows its directory id among the observers."""
        await self._run(
            self._engine.quorum.add_voter(voter_id, directory_id, Address(*address), timeout=timeout)
        )

    async def remove_raft_voter(
        self, voter_id: int, directory_id: bytes, *, timeout: float | None = None
    ) -> None:
        """Take a controller's vote away: it only follows from then on. One that joins by itself, see
        controller.quorum.auto.join.enable, has to be stopped before."""
        await self._run(self._engine.quorum.remove_voter(voter_id, directory_id, timeout=timeout))

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | TimestampLike],
        *,
        timeout: float | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """Per partition the EARLIEST or LATEST offset, that of MAX_TIMESTAMP, or the first at or after a time
        (ms or aware datetime; -1 when there is none)."""
        return await self._run(self._engine.list_offsets(wanted, timeout=timeout))

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int | OffsetSpec], *, timeout: float | None = None
    ) -> Results[TopicPartition, DeletedRecords]:
        """Delete the records below an offset, per partition, or all that are committed (LATEST): for good, on
        all nodes that live. Not of topics that are only compacted."""
        return await self._run(self._engine.delete_records(offsets, timeout=timeout))

    async def close(self, timeout: float | None = None) -> None:
        """End."""
        if self._is_closed:
            return
        self._is_closed = True
        self._cluster.remove(self)
        if self._owns_cluster:
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _engine(self) -> AdminEngine:
        hub = self._cluster.hub  # raises on another event loop than the first
        if self._made is None:
            self._made = AdminEngine(hub, self.config)
        return self._made

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise ClosedError("the admin client was closed")
        return await work
