"""Makes the plan of an application from its topology and the topics of the cluster."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...clients.config import ConnectionConfig
from ...protocol.errors import ConfigError
from ...protocol.records.topology_limits import MAX_DESCRIPTION_BYTES, description_size
from ..errors import InternalTopicError
from ..processors.named_tables import takes_columns
from ..task.timestamps import FailOnInvalidTimestamp
from ..topology.column_paths import column_paths
from ..topology.errors import TopologyError
from .group_topology import group_topology
from .plan import AppPlan
from .topic_plan import plan_topics
from .topics_io import existing_topics
from .upgrade_io import built_with, with_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ...clients.admin.admin_types import TopicListing
    from ...clients.sync.admin_io import Admin
    from ...protocol.records.streams_group_records import TopologyDescription
    from ..config import StreamsConfig
    from ..state.engines import Engine
    from ..task.settings import TaskSettings
    from ..topology.built import BuiltTopology
    from ..topology.column_paths import ColumnPath
    from ..topology.sub_topology import SubTopology
    from ..topology.topology import Topology
    from .clients_io import Clients
    from .listeners_io import RestoreListener


log = logging.getLogger(__name__)
_NOT_OF_MEMBERS = {
    "session.timeout.ms": "set streams.session.timeout.ms of the group",
    "heartbeat.interval.ms": "set streams.heartbeat.interval.ms of the group",
    "partition.assignment.strategy": "the coordinator assigns tasks",
    "group.protocol": "its protocol is that of streams groups",
    "group.remote.assignor": "the coordinator has one assignor for tasks",
}
"""Keys of consumers, and what to do instead."""


class Planner:
    """Makes a first plan, and another one when topics came or went that match a pattern of a source.

    `client_configs` by prefix, as `split_config` returns them.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        settings: TaskSettings,
        clients: Clients,
        client_configs: Mapping[str, Mapping[str, Any]],
        open_engine: Callable[[Path, str], Engine],
        restore_listener: RestoreListener | None = None,
    ) -> None:
        self._topology = topology
        self.config = config
        self.settings = settings
        self._clients = clients
        self._given = client_configs
        self._client_configs = _client_configs(config, client_configs)
        self._open_engine = open_engine
        self._restore_listener = restore_listener

    def admin(self) -> Admin:
        """A new admin client."""
        return self._clients.admin(self._given.get("admin", {}))

    def security_protocol(self) -> str:
        """That of the clients' connections."""
        return self._clients.security_protocol(self._given.get("admin", {}))

    @property
    def description(self) -> str:
        """The topology, as Java describes it."""
        return self._topology.describe()

    @property
    def interval_ms(self) -> int:
        """How often topics are looked for that match a pattern: metadata.max.age.ms of the consumers."""
        given = self._client_configs["main.consumer"]
        config = ConnectionConfig.of({key: given[key] for key in ("metadata.max.age.ms",) if key in given})
        return config.metadata_max_age_ms

    def first_plan(self, admin: Admin) -> AppPlan:
        """Check the topics that exist, and the topology of the group. Errors: InternalTopicError,
        TopologyError, IncompatibleTopologyError."""
        existing = existing_topics(admin)
        built = self._built(existing)
        if not built.sub_topology_ids and built.global_topology() is None:
            raise TopologyError("the topology has no source: an application reads at least one topic")
        return with_epoch(admin, self._plan(built, existing), existing.keys())

    def next_plan(self, admin: Admin, plan: AppPlan) -> AppPlan | None:
        """A plan with the topics that match patterns now; None if they are those of `plan`. Errors: as
        `first_plan`."""
        existing = existing_topics(admin)
        built = self._built(existing)
        if built.matched == plan.built.matched:
            return None
        return replace(self._plan(built, existing), group_topology=plan.group_topology)

    def _sent_description(self) -> TopologyDescription | None:
        """What the group gets to know besides (KIP-1331); None if it is too large for that."""
        graph = self._topology.graph() if self.config.pushes_description else None
        if graph is not None and description_size(graph) > MAX_DESCRIPTION_BYTES:
            log.info(
                "the description of the topology has more than %d bytes: it is not sent",
                MAX_DESCRIPTION_BYTES,
            )
            return None
        return graph

    def _built(self, existing: Mapping[str, TopicListing]) -> BuiltTopology:
        return built_with(self._topology, self.config, existing)

    def _plan(self, built: BuiltTopology, existing: Mapping[str, TopicListing]) -> AppPlan:
        defaults = {name: str(value) for name, value in self._given.get("topic", {}).items()}
        counts = _partition_counts(built, existing)
        sub_topologies = {number: built.sub_topology(number) for number in built.sub_topology_ids}
        return AppPlan(
            config=self.config,
            settings=self.settings,
            built=built,
            sub_topologies=sub_topologies,
            sources={number: frozenset(each.sources) for number, each in sub_topologies.items()},
            partitions={name: counts[name] for each in sub_topologies.values() for name in each.sources},
            topic_ids={name: existing[name].topic_id.hex() for name in counts if name in existing},
            group_topology=group_topology(built, self.config, defaults),
            description=self._sent_description(),
            client_tags={name: str(value) for name, value in self._given.get("client.tag", {}).items()},
            repartition_topics=frozenset(
                topic for each in sub_topologies.values() for topic in each.repartition_topics
            ),
            client_configs=self._client_configs,
            open_engine=self._open_engine,
            column_paths=_column_paths(sub_topologies, self.settings),
            restore_listener=self._restore_listener,
            global_partitions=_global_partitions(built, existing),
        )


def _partition_counts(built: BuiltTopology, existing: Mapping[str, TopicListing]) -> dict[str, int]:
    """Of source and internal topics; the coordinator creates those that do not exist. Errors:
    InternalTopicError for topics that do not fit."""
    infos = {number: built.topics_of(number) for number in built.sub_topology_ids}
    counts = {name: topic.partitions for name, topic in existing.items()}
    planned = {topic.name: count for topic, count in plan_topics(infos, built.copartition_groups(), counts)}
    sources = frozenset[str]().union(*(info.source_topics for info in infos.values()))
    return {**planned, **{name: counts[name] for name in sources if name in counts}}


def _global_partitions(built: BuiltTopology, existing: Mapping[str, TopicListing]) -> dict[str, int]:
    topology = built.global_topology()
    topics = [] if topology is None else list(topology.sources)
    for topic in topics:
        if topic not in existing:
            raise InternalTopicError(f"topic {topic} of a global store does not exist")
    return {topic: existing[topic].partitions for topic in topics}


def _column_paths(
    sub_topologies: Mapping[int, SubTopology], settings: TaskSettings
) -> dict[int, dict[str, ColumnPath]]:
    """Empty if no source topic passes through Arrow sections first, and some do not pass through an
    aggregation by column: a thread reads batches or records."""
    if not isinstance(settings.timestamp_extractor, FailOnInvalidTimestamp):
        return {}
    if find_spec("pyarrow") is not None:
        takes = partial(takes_columns, settings)
        paths = {number: column_paths(each, takes) for number, each in sub_topologies.items()}
        if all(paths.values()):
            return paths
    paths = {number: column_paths(each) for number, each in sub_topologies.items()}
    return paths if any(paths.values()) else {}


def _client_configs(
    config: StreamsConfig, given: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The configs of each client: defaults of Kafka Streams, what the user gives, what must be. Errors:
    ConfigError for keys that members of a streams group do not have."""
    for prefix in ("consumer", "main.consumer"):
        for name, instead in _NOT_OF_MEMBERS.items():
            if name in given.get(prefix, {}):
                raise ConfigError(f"{prefix}.{name}: members of streams groups have none; {instead}")
    shared = given.get("consumer", {})
    isolation = "read_committed" if config.is_exactly_once else "read_uncommitted"
    forced = {"enable.auto.commit": False, "isolation.level": isolation}
    defaults = {"auto.offset.reset": "earliest", "max.poll.records": 1000}
    traced = {"enable.tracing": True} if config.enable_tracing else {}
    main = {
        **defaults,
        **traced,
        **shared,
        **given.get("main.consumer", {}),
        **forced,
        "group.id": config.application_id,
    }
    without_group = {name: value for name, value in shared.items() if name != "group.instance.id"}
    side = {**defaults, **without_group, "isolation.level": isolation}
    return {
        "main.consumer": main,
        "restore.consumer": {**side, **given.get("restore.consumer", {})},
        "global.consumer": {**side, **given.get("global.consumer", {})},
        "producer": {"linger.ms": 100, **traced, **given.get("producer", {})},
        "admin": dict(given.get("admin", {})),
    }
