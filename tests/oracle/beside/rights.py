"""Requests of every API, and the users that send them. Pure.

A user has no right, one right less than the table of required operations says, just enough rights, or one of
the alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from headrace.protocol.security.acls import CLUSTER_NAME, ResourceType
from headrace.protocol.security.required_operations import REQUIRED, Need, Right, Scope

from .asking import batch
from .wire import KEYS

T, G, X, U, C = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
    ResourceType.CLUSTER,
)
NAMED, LISTED = frozenset((Scope.REQUEST, Scope.EACH)), frozenset((Scope.SHOWN,))
OTHER = "rights-other"  # a topic, group and transactional id for which no user has rights
# Of servers only: brokers do not advertise them to clients.
BETWEEN_SERVERS = frozenset((52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 82))
# Open to everyone before or without a right, and compared by other scenarios.
WITHOUT_RIGHTS = frozenset((17, 18, 36))
# The resources are tokens, whose ids differ: see security_tokens.py.
OF_TOKENS = frozenset((39, 40, 41))
_STATE = ("group_state", "transaction_state")
_KEPT = re.compile(
    r"error_code|name|topic|topic_name|group_id|transactional_id|resource_name|key|partition_index|partition"
    r"|\w*authorized_operations|bytes behind the answer"
)
_LEFT_OUT = ("assignment", "configs", "supported_features", "finalized_features", "brokers", "replica_nodes")


class Case(NamedTuple):
    """A request. Requirements of the types `kinds` concern it, of topics only those with a scope in `scopes`.

    `fields` make its body from the name of the user's resources of all types. `prepared`: what exists before.
    """

    api: str
    version: int
    fields: Callable[[str], dict[str, Any]]
    kinds: frozenset[ResourceType]
    title: str = ""
    scopes: frozenset[Scope] = NAMED
    prepared: str = ""

    @property
    def label(self) -> str:
        """Unique."""
        return f"{self.api} {self.title}".strip()

    @property
    def own(self) -> str:
        """The name of its resources."""
        return "rights-" + re.sub(r"[^a-z0-9]+", "-", self.label)

    @property
    def needs(self) -> list[Need]:
        """The requirements that concern it."""
        return [
            need
            for need in REQUIRED[KEYS[self.api]].needs
            if need.right.resource_type in self.kinds
            and (need.right.resource_type is not T or need.scope in self.scopes)
        ]


class Sender(NamedTuple):
    """A user of a case, and its rights."""

    label: str
    user: str
    rights: tuple[Right, ...]


def name_of(case: Case, kind: ResourceType) -> str:
    """The resource of this type that the user of a case has rights for."""
    return {C: CLUSTER_NAME, U: f"User:{case.own}"}.get(kind, case.own)


def senders(case: Case) -> Iterator[Sender]:
    """Those with most rights come last: they may change something."""
    needs = case.needs
    every = [need.right for need in needs]
    found = {"nothing": []} if needs else {}
    if len(needs) > 1:
        found |= {f"without {_shown(each)}": [right for right in every if right != each] for each in every}
    found["enough"] = every
    for need in needs:
        if need.alternative is not None:
            other = [need.alternative if right == need.right else right for right in every]
            found[f"with {_shown(need.alternative)}"] = other
    for number, (label, rights) in enumerate(found.items()):
        yield Sender(label, f"{case.own}-{number}", tuple(dict.fromkeys(rights)))


def _shown(right: Right) -> str:
    return f"{right.operation.name} {right.resource_type.name}"


def verdict(value: Any) -> Any:
    """The error codes, names and allowed operations in a response."""
    if isinstance(value, list):
        return [verdict(each) for each in value if isinstance(each, dict)]
    return {
        name: verdict(each) if isinstance(each, dict | list) else each
        for name, each in value.items()
        if (isinstance(each, dict | list) and name not in _LEFT_OUT and each)
        or _KEPT.fullmatch(name)
        or name in _STATE
    }


# --- the requests -----------------------------------------------------------------------------------------


def _case(
    api: str, version: int, kinds: str, fields: Callable[[str], dict[str, Any]], title: str = "", **more: Any
) -> Case:
    """`kinds`: t g x u c."""
    types = {"t": T, "g": G, "x": X, "u": U, "c": C}
    return Case(api, version, fields, frozenset(types[each] for each in kinds), title, **more)


def _parts(own: str, key: str, field: str, **part: Any) -> list[dict[str, Any]]:
    """Partition 0 of the own topic and of the other one."""
    return [{key: name, field: [part]} for name in (own, OTHER)]


def _topics(own: str, key: str = "name", **more: Any) -> list[dict[str, Any]]:
    return [{key: name, **more} for name in (own, OTHER)]


_TXN = {"producer_id": 1, "producer_epoch": 0}
_OFFSET = {
    "partition_index": 0,
    "committed_offset": 1,
    "committed_leader_epoch": -1,
    "committed_metadata": "",
}
_EMPTY = {"topics": []}


def _produced(own: str, **more: Any) -> dict[str, Any]:
    data = batch(base_sequence=0, is_transactional=True, **_TXN) if more else batch()
    return {"acks": -1, "timeout": 5_000, "topic_data": _parts(own, "name", "partition_data", index=0,
            records=data), **more}  # fmt: skip


def _fetched(own: str, replica_id: int) -> dict[str, Any]:
    part = {"partition": 0, "fetch_offset": 0, "current_leader_epoch": -1, "partition_max_bytes": 1 << 20}
    return {"replica_id": replica_id, "max_bytes": 1 << 20, "min_bytes": 0, "max_wait": 0,
            "session_epoch": -1, "topics": _parts(own, "topic", "partitions", **part)}  # fmt: skip


def _wanted(own: str, **change: Any) -> dict[str, Any]:
    made = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **change}
    return {"timeout": 5_000, "topics": _topics(own, **made)}


def _configs(kind: int, own: str, **more: Any) -> dict[str, Any]:
    names = ("1",) if kind in (4, 8) else (own, OTHER)
    return {"resources": [{"resource_type": kind, "resource_name": name, **more} for name in names]}


def _member(own: str, **more: Any) -> dict[str, Any]:
    return {"group_id": own, "generation_id": 1, "member_id": "m", "group_instance_id": None, **more}


def _joining(own: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": b""}]
    return {"group_id": own, "session_timeout": 10_000, "rebalance_timeout": 1_000, "member_id": "",
            "protocol_type": "consumer", "protocols": protocols}  # fmt: skip


def _beat(own: str, **more: Any) -> dict[str, Any]:
    return {"group_id": own, "member_id": "m", "member_epoch": 0, "rebalance_timeout": 30_000,
            "subscribed_topic_names": None, "subscribed_topic_regex": None, "server_assignor": None,
            "topic_partitions": [], **more}  # fmt: skip


def _streams_beat(own: str) -> dict[str, Any]:
    part = {"subtopology_id": "0", "source_topics": [own], "source_topic_regex": [],
            "state_changelog_topics": [], "repartition_sink_topics": [],
            "repartition_source_topics": [{"name": f"{own}-repartition", "partitions": 1}],
            "copartition_groups": []}  # fmt: skip
    return {"group_id": own, "member_id": "m", "member_epoch": 0, "endpoint_information_epoch": -1,
            "rebalance_timeout": 30_000, "topology": {"epoch": 0, "subtopologies": [part]},
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p",
            "user_endpoint": None, "client_tags": [], "shutdown_application": False}  # fmt: skip


ACL_FILTER = {"resource_type_filter": 1, "resource_name_filter": "no-such", "pattern_type_filter": 3,
              "principal_filter": None, "host_filter": None, "operation": 1,
              "permission_type": 1}  # fmt: skip
_ACL = {"resource_type": 2, "resource_name": "no-such", "resource_pattern_type": 3, "principal": "User:x",
        "host": "*", "operation": 3, "permission_type": 3}  # fmt: skip
_VOTER = {"cluster_id": "other", "voter_id": 9,
          "voter_directory_id": "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab"}  # fmt: skip
_CODES = {"topic": 2, "group": 32, "node": 4, "loggers": 8}
_KINDS = {"topic": "t", "group": "g", "node": "c", "loggers": "c"}

CASES: tuple[Case, ...] = (
    _case("produce", 9, "t", _produced),
    _case("produce", 9, "tx", lambda own: _produced(own, transactional_id=own), "in a transaction"),
    _case("fetch", 11, "t", lambda own: _fetched(own, -1)),
    _case("fetch", 11, "c", lambda own: _fetched(own, 9), "by a follower"),
    _case("list_offsets", 5, "t", lambda own: {"replica_id": -1, "topics": _parts(
        own, "name", "partitions", partition_index=0, current_leader_epoch=-1, timestamp=-1)}),
    _case("metadata", 12, "t", lambda own: {
        "topics": _topics(own), "include_topic_authorized_operations": True}),
    _case("metadata", 12, "t", lambda _: {"topics": None}, "of all", scopes=LISTED),
    _case("offset_commit", 8, "gt", lambda own: {"group_id": own, "generation_id_or_member_epoch": -1,
          "member_id": "", "topics": _parts(own, "name", "partitions", **_OFFSET)}),
    _case("offset_fetch", 8, "gt", lambda own: {"groups": [{"group_id": name, "topics": _topics(
          own, partition_indexes=[0])} for name in (own, OTHER)]}, prepared="offsets"),
    _case("offset_fetch", 8, "gt", lambda own: {"groups": [{"group_id": own, "topics": None}]}, "of all",
          scopes=LISTED, prepared="offsets"),
    _case("find_coordinator", 4, "g", lambda own: {"key_type": 0, "coordinator_keys": [own, OTHER]}),
    _case("find_coordinator", 4, "x", lambda own: {"key_type": 1, "coordinator_keys": [own, OTHER]},
          "of transactions"),
    _case("join_group", 3, "g", _joining),
    _case("heartbeat", 3, "g", _member),
    _case("leave_group", 3, "g", lambda own: {"group_id": own, "members": [{"member_id": "m"}]}),
    _case("sync_group", 3, "g", lambda own: _member(own, assignments=[])),
    _case("describe_groups", 5, "g", lambda own: {"groups": [own, OTHER],
          "include_authorized_operations": True}),
    _case("list_groups", 4, "g", lambda _: {"states_filter": []}, prepared="offsets", scopes=LISTED),
    _case("create_topics", 7, "t", _wanted),
    _case("delete_topics", 6, "t", lambda own: {"timeout": 5_000, "topics": _topics(own)}),
    _case("delete_records", 2, "t", lambda own: {"timeout": 5_000, "topics": _parts(
          own, "name", "partitions", partition_index=0, offset=0)}),
    _case("init_producer_id", 4, "x", lambda own: {"transactional_id": own, "transaction_timeout": 30_000,
          "producer_id": -1, "producer_epoch": -1}),
    _case("init_producer_id", 4, "c", lambda _: {"transactional_id": None, "transaction_timeout": 30_000,
          "producer_id": -1, "producer_epoch": -1}, "idempotent"),
    _case("offset_for_leader_epoch", 3, "t", lambda own: {"replica_id": -1, "topics": _parts(
          own, "topic", "partitions", partition=0, current_leader_epoch=-1, leader_epoch=0)}),
    _case("add_partitions_to_txn", 3, "xt", lambda own: {"v3_and_below_transactional_id": own,
          "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
          "v3_and_below_topics": [{"name": own, "partitions": [0]}]}),
    _case("add_offsets_to_txn", 3, "xg", lambda own: {"transactional_id": own, **_TXN, "group_id": own}),
    _case("end_txn", 3, "x", lambda own: {"transactional_id": own, **_TXN, "committed": True}),
    _case("write_txn_markers", 1, "c", lambda own: {"markers": [{**_TXN, "transaction_result": True,
          "topics": [{"name": own, "partition_indexes": [0]}], "coordinator_epoch": 0}]}),
    _case("txn_offset_commit", 3, "xgt", lambda own: {"transactional_id": own, **_TXN, "generation_id": -1,
          "member_id": "", "group_id": own, "topics": _parts(own, "name", "partitions", **_OFFSET)}),
    _case("describe_acls", 3, "c", lambda _: ACL_FILTER),
    _case("create_acls", 3, "c", lambda _: {"creations": [_ACL, {**_ACL, "host": "bad host"}]}),
    _case("delete_acls", 3, "c", lambda _: {"filters": [ACL_FILTER]}),
    *(_case("describe_configs", 4, _KINDS[what], lambda own, code=code: _configs(code, own), f"of a {what}")
      for what, code in _CODES.items()),
    *(_case("alter_configs", 2, _KINDS[what], lambda own, code=code: _configs(code, own, configs=[]),
      f"of a {what}") for what, code in _CODES.items() if what != "loggers"),
    *(_case("incremental_alter_configs", 1, _KINDS[what], lambda own, code=code: _configs(
      code, own, configs=[]), f"of a {what}") for what, code in _CODES.items()),
    _case("alter_replica_log_dirs", 2, "c", lambda own: {"dirs": [{"path": "/no/such/dir", "topics": [
          {"name": own, "partitions": [0]}]}]}),
    _case("describe_log_dirs", 4, "c", lambda own: {"topics": [{"topic": own, "partitions": [0]}]}),
    _case("create_partitions", 3, "t", lambda own: {"timeout": 5_000, "topics": _topics(own, count=2,
          assignments=None)}),
    _case("delete_groups", 2, "g", lambda own: {"groups_names": [own, OTHER]}, prepared="offsets"),
    _case("elect_leaders", 2, "c", lambda own: {"election_type": 0, "timeout": 5_000,
          "topic_partitions": [{"topic": own, "partitions": [0]}]}),
    _case("alter_partition_reassignments", 0, "c", lambda own: {"timeout": 5_000, "topics": [
          {"name": own, "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    _case("list_partition_reassignments", 0, "c", lambda _: {"timeout": 5_000, "topics": None}),
    _case("offset_delete", 0, "gt", lambda own: {"group_id": own, "topics": _parts(
          own, "name", "partitions", partition_index=0)}, prepared="offsets"),
    _case("describe_client_quotas", 1, "c", lambda own: {"strict": True, "components": [
          {"entity_type": "user", "match_type": 0, "match": own}]}),
    _case("alter_client_quotas", 1, "c", lambda own: {"entries": [{"entity": [
          {"entity_type": "user", "entity_name": own}],
          "ops": [{"key": "request_percentage", "value": 50.0, "remove": False}]}]}),
    _case("describe_user_scram_credentials", 0, "c", lambda own: {"users": [{"name": own}]}),
    _case("alter_user_scram_credentials", 0, "c", lambda own: {"upsertions": [], "deletions": [
          {"name": own, "mechanism": 1}]}),
    _case("describe_quorum", 2, "c", lambda _: {"topics": [
          {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
    _case("update_features", 1, "c", lambda _: {"timeout": 5_000, "validate_only": True, "feature_updates": [
          {"feature": "no-such-feature", "max_version_level": 1, "upgrade_type": 1}]}),
    _case("describe_cluster", 2, "c", lambda _: {"include_cluster_authorized_operations": True,
          "endpoint_type": 1}),
    _case("describe_producers", 0, "t", lambda own: {"topics": _topics(own, partition_indexes=[0])}),
    _case("unregister_broker", 0, "c", lambda _: {"broker_id": 99}),
    _case("describe_transactions", 0, "xt", lambda own: {"transactional_ids": [own, OTHER]},
          prepared="transaction", scopes=LISTED),
    _case("list_transactions", 1, "x", lambda _: {"state_filters": [], "producer_id_filters": []},
          prepared="transaction"),
    _case("consumer_group_heartbeat", 0, "gt", lambda own: _beat(own, subscribed_topic_names=[own])),
    _case("consumer_group_heartbeat", 1, "gt", lambda own: _beat(own, member_id="bWVtYmVyLW9mLXJlZw",
          subscribed_topic_regex=f"{own}.*"), "by expression", scopes=LISTED),
    _case("consumer_group_describe", 1, "gt", lambda own: {"group_ids": [own, OTHER],
          "include_authorized_operations": True}, prepared="member"),
    _case("get_telemetry_subscriptions", 0, "", lambda _: {}),
    _case("list_config_resources", 1, "c", lambda _: {"resource_types": [16]}),
    _case("describe_topic_partitions", 0, "t", lambda own: {"topics": _topics(own),
          "response_partition_limit": 10, "cursor": None}),
    _case("describe_topic_partitions", 0, "t", lambda _: {"topics": [], "response_partition_limit": 1_000,
          "cursor": None}, "of all", scopes=LISTED),
    _case("add_raft_voter", 0, "c", lambda _: {**_VOTER, "timeout": 5_000, "listeners": [
          {"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]}),
    _case("remove_raft_voter", 0, "c", lambda _: _VOTER),
    _case("streams_group_heartbeat", 0, "gt", _streams_beat),
    _case("streams_group_describe", 0, "g", lambda own: {"group_ids": [own, OTHER],
          "include_authorized_operations": True}),
    _case("push_telemetry", 0, "", lambda _: {"metrics": b""}),
    _case("create_delegation_token", 3, "u", lambda own: {"owner_principal_type": "User",
          "owner_principal_name": own, "renewers": [], "max_lifetime": -1}),
)  # fmt: skip
