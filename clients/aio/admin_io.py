"""The asyncio admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ClosedError
from ..admin.admin_io import AdminEngine
from ..admin.configs_io import resources_of
from ..cluster.async_cluster_io import AsyncClusterIo
from ..cluster.attach_io import attach
from ..cluster.network import Address
from ..config import AdminConfig
from .lag_admin_io import AsyncLagAdmin
from .replicas_admin_io import AsyncReplicasAdmin
from .roles_admin_io import AsyncRolesAdmin
from .security_admin_io import AsyncSecurityAdmin

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from ...protocol.metadata.quotas import Entity
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
    from ..admin.group_types import (
        GroupDescription,
        GroupListing,
        HangingTransaction,
        ProducerDescription,
        ProducerIdAndEpoch,
        TransactionDescription,
        TransactionListing,
    )
    from ..admin.streams_groups import StreamsGroupDescription
    from ..cluster.async_cluster_io import AsyncSharedCluster
    from ..group.group_metadata import OffsetAndMetadata
    from ..options import AdminOptions
    from ..records import OffsetAndTimestamp, TimestampLike

T = TypeVar("T")


class AsyncAdmin(AsyncSecurityAdmin, AsyncRolesAdmin, AsyncReplicasAdmin, AsyncLagAdmin):
    """Describes and changes topics, configs, groups and transactions, nodes and controllers of a cluster.
    Belongs to one event loop.

    Plural calls return `Results`: a value or an error for each item. `timeout` is in seconds; None means
    default.api.timeout.ms. `bootstrap` is as for `AsyncProducer`; other keyword arguments are keys of
    AdminConfig.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | AsyncSharedCluster | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._io, self.config = attach(AsyncClusterIo, bootstrap, AdminConfig, config, options)
        self._is_closed = False
        with self._io.opening(self):
            self._holder = self._io.engine(lambda hub: AdminEngine(hub, self.config))

    async def create_topics(
        self,
        *topics: NewTopic,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[str, CreatedTopicInfo]:
        """Create topics; with `validate_only` only check that they could be created."""
        return await self._run(
            self._engine.create_topics(topics, validate_only=validate_only, timeout=timeout)
        )

    async def delete_topics(self, *names: str, timeout: float | None = None) -> Results[str, None]:
        """Delete topics with all their records."""
        return await self._run(self._engine.delete_topics(names, timeout=timeout))

    async def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> list[TopicListing]:
        """All topics by name; internal ones too with `internal`."""
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
        """Raise the partition counts of topics to these totals."""
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
        """Effective configs by name; a plain string names a topic. With `synonyms` also the values of all
        levels, with `docs` the documentation of each key."""
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
        """Change single configs and leave the others: a value sets, None deletes, `append` and `subtract`
        change lists. A plain string names a topic. All changes of a resource are made, or none; with
        `validate_only` they are only checked."""
        wanted = dict(zip(resources_of(changes), changes.values(), strict=True))
        return await self._run(
            self._engine.configs.alter(wanted, validate_only=validate_only, timeout=timeout)
        )

    async def list_config_resources(
        self, *, configured_only: bool = False, timeout: float | None = None
    ) -> list[Resource]:
        """All topics, unfenced brokers, and groups and client metrics subscriptions with configs, as Kafka
        lists them. `configured_only`: resources with dynamic configs of their own; a broker without a name
        stands for the cluster-wide defaults."""
        return await self._run(
            self._engine.configs.list_resources(configured_only=configured_only, timeout=timeout)
        )

    async def describe_client_quotas(
        self, names: Mapping[str, Any] | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[Entity, dict[str, float]]:
        """Quotas by entity. `names` selects by `user`, `client_id` or `ip`: None is the default entity,
        ANY_NAME any name; `strict` excludes entities with further parts."""
        return await self._run(self._engine.quotas.describe(names or {}, strict=strict, timeout=timeout))

    async def alter_client_quotas(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Results[Entity, None]:
        """Set quotas of entities (see `quota_entity`); None deletes one. All changes of an entity are made,
        or none."""
        return await self._run(
            self._engine.quotas.alter(changes, validate_only=validate_only, timeout=timeout)
        )

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """The cluster id, the controller and the nodes; fenced nodes too with `include_fenced`."""
        return await self._run(
            self._engine.replication.describe_cluster(include_fenced=include_fenced, timeout=timeout)
        )

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        node_id: int | None = None,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect the preferred leaders, or (UNCLEAN) any replica of partitions without a leader, or the one on
        `node_id`, which may lose records. With None all partitions; those that need no election are not in
        the result."""
        return await self._run(
            self._engine.replication.elect_leaders(
                election_type, partitions, node_id=node_id, timeout=timeout
            )
        )

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to these nodes, the preferred leader first, or cancel (None) a
        reassignment. `list_partition_reassignments` shows those that go on."""
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
        """The reassignments that go on, of these partitions or (None) of all."""
        return await self._run(
            self._engine.replication.list_partition_reassignments(partitions, timeout=timeout)
        )

    async def drain_node(
        self, node_id: int, *, drained: bool = True, timeout: float | None = None
    ) -> DrainedNode:
        """Move all leaders off a node, and elect it no more until `drained=False`; the node keeps running.
        Call it again for partitions that had no other replica in sync. The result has the topics that then
        reject acks=all."""
        return await self._run(self._engine.replication.drain_node(node_id, drained=drained, timeout=timeout))

    async def unregister_broker(self, node_id: int, *, timeout: float | None = None) -> None:
        """Remove the registration of a storage node that is fenced and has no replicas."""
        await self._run(self._engine.replication.unregister_broker(node_id, timeout=timeout))

    async def describe_log_dirs(
        self,
        nodes: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> Results[int, tuple[LogDirInfo, ...]]:
        """The log dirs of each node and the replicas in them: of all unfenced nodes or (`nodes`) of some, of
        all partitions or (`partitions`) of some."""
        return await self._run(self._engine.log_dirs.describe(nodes, partitions, timeout=timeout))

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> Results[TopicPartitionReplica, None]:
        """Begin to move replicas to other log dirs of their nodes. `describe_log_dirs` shows the copies; the
        current dir as target cancels a move. A replica that does not exist yet (ReplicaNotAvailableError)
        will be created in that dir."""
        return await self._run(self._engine.log_dirs.alter(moves, timeout=timeout))

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        """The controllers: leader, voters and observers, with their log end offsets."""
        return await self._run(self._engine.quorum.describe(timeout=timeout))

    async def add_raft_voter(
        self, voter_id: int, directory_id: bytes, address: tuple[str, int], *, timeout: float | None = None
    ) -> None:
        """Make an observer of the metadata quorum a voter. `address` is its listener, as (host, port);
        `describe_metadata_quorum` shows its directory id."""
        await self._run(
            self._engine.quorum.add_voter(voter_id, directory_id, Address(*address), timeout=timeout)
        )

    async def remove_raft_voter(
        self, voter_id: int, directory_id: bytes, *, timeout: float | None = None
    ) -> None:
        """Make a voter an observer. Stop a controller that joins by itself, see
        controller.quorum.auto.join.enable, before."""
        await self._run(self._engine.quorum.remove_voter(voter_id, directory_id, timeout=timeout))

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | TimestampLike],
        *,
        timeout: float | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """For each partition the EARLIEST or LATEST offset, that of MAX_TIMESTAMP, or the first one at or
        after a time (ms or aware datetime; -1 without such a record)."""
        return await self._run(self._engine.list_offsets(wanted, timeout=timeout))

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int | OffsetSpec], *, timeout: float | None = None
    ) -> Results[TopicPartition, DeletedRecords]:
        """Delete the records below an offset, per partition, or all committed ones (LATEST), on all live
        replicas. Not for topics that are only compacted."""
        return await self._run(self._engine.delete_records(offsets, timeout=timeout))

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """All groups by id, or those of some states or types, in Kafka's names (Stable, Empty, .., classic,
        consumer). Every node must respond."""
        return await self._run(self._engine.groups.find(states, types, timeout=timeout))

    async def describe_groups(
        self, *group_ids: str, timeout: float | None = None
    ) -> Results[str, GroupDescription]:
        """State, members and assignments of groups of any type."""
        return await self._run(self._engine.groups.describe(group_ids, timeout=timeout))

    async def describe_streams_groups(
        self, *group_ids: str, include_topology_description: bool = False, timeout: float | None = None
    ) -> Results[str, StreamsGroupDescription]:
        """State, topology, members and tasks of streams groups (KIP-1071); the processing graphs that their
        members have sent (KIP-1331) only if they are asked for."""
        graphs = include_topology_description
        return await self._run(
            self._engine.groups.describe_streams(group_ids, graphs=graphs, timeout=timeout)
        )

    async def delete_groups(self, *group_ids: str, timeout: float | None = None) -> Results[str, None]:
        """Delete groups without members, with their committed offsets."""
        return await self._run(self._engine.groups.delete(group_ids, timeout=timeout))

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of a group: of all partitions with one, or of these, None without one. With
        `require_stable` it waits for transactions that are about to change them."""
        return await self._run(
            self._engine.groups.list_offsets(
                group_id, partitions, require_stable=require_stable, timeout=timeout
            )
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        create: bool = False,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members; with `create` also for one that does not exist yet.
        Errors: UnknownMemberIdError if it has members, GroupIdNotFoundError."""
        return await self._run(
            self._engine.groups.alter_offsets(group_id, offsets, create=create, timeout=timeout)
        )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group in topics to which no member subscribes."""
        return await self._run(self._engine.groups.delete_offsets(group_id, partitions, timeout=timeout))

    async def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Remove members from a group, by instance id, or (None) all by member id. A running member joins
        again."""
        return await self._run(
            self._engine.groups.remove_members(group_id, instance_ids, reason, timeout=timeout)
        )

    async def describe_producers(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> Results[TopicPartition, tuple[ProducerDescription, ...]]:
        """The producers of partitions with their ids, and their open transactions."""
        return await self._run(self._engine.transactions.describe_producers(partitions, timeout=timeout))

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: float | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids, or those with these states (Kafka's names, Prepared) or producer ids, with a
        transaction that is open for longer (seconds), or that match a pattern as a whole."""
        return await self._run(
            self._engine.transactions.find(
                states, producer_ids, longer_than=longer_than, pattern=pattern, timeout=timeout
            )
        )

    async def describe_transactions(
        self, *transactional_ids: str, timeout: float | None = None
    ) -> Results[str, TransactionDescription]:
        """The state of transactional ids at their coordinators."""
        return await self._run(self._engine.transactions.describe(transactional_ids, timeout=timeout))

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        longer_than: float = 900.0,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        """Transactions that are open in these partitions, without records for `longer_than` seconds (not
        below transaction.max.timeout.ms), which no coordinator will end."""
        return await self._run(
            self._engine.transactions.find_hanging(partitions, longer_than=longer_than, timeout=timeout)
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Abort a hanging transaction in a partition, as `describe_producers` shows it. A transaction that
        its coordinator has must not be aborted so: it would be aborted in this partition only."""
        await self._run(
            self._engine.transactions.abort(
                partition, producer_id, producer_epoch, coordinator_epoch, timeout=timeout
            )
        )

    async def fence_producers(
        self, *transactional_ids: str, timeout: float | None = None
    ) -> Results[str, ProducerIdAndEpoch]:
        """Abort the open transactions of transactional ids, and fence their producers. Waits until prepared
        transactions have ended."""
        return await self._run(self._engine.transactions.fence(transactional_ids, timeout=timeout))

    async def abort_prepared(
        self, *transactional_ids: str, timeout: float | None = None
    ) -> Results[str, None]:
        """Abort prepared transactions, in all their partitions, when their driver will not return. If it has
        decided to commit them, their rows are lost: open its `Sink` instead, which ends them as decided."""
        return await self._run(self._engine.transactions.abort_prepared(transactional_ids, timeout=timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Close the connections that are not shared; a second call does nothing."""
        if self._is_closed:
            return
        self._io.check_may_block()
        self._is_closed = True
        await self._io.leave(self)

    def forked(self) -> None:
        """Make every further call raise ClosedError: this process is a forked child."""
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _engine(self) -> AdminEngine:
        return self._holder.get()

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            work.close()
            raise ClosedError("the admin client was closed")
        return await self._io.call(work)
