"""Collects the part of a bundle that the nodes of a cluster report: descriptions by an admin client."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import NodeState, Resource
from ...protocol.errors import HeadraceError
from ..network_status import pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from .parts import Parts

MAX_GROUPS, MAX_TRANSACTIONS = 500, 500


def add_cluster(parts: Parts, admin: Admin, ends_at_s: float) -> None:
    """Add all descriptions until `ends_at_s` (monotonic); what cannot be described is missing."""

    def attempt(what: str, read: Callable[[], Any]) -> Any:
        if time.monotonic() >= ends_at_s:
            parts.miss(what, "no time was left")
            return None
        try:
            found = read()
        except (HeadraceError, TimeoutError, OSError, ValueError) as error:
            parts.miss(what, f"{type(error).__name__}: {error}")
            return None
        parts.add_json(f"cluster/{what}.json", plain(found))
        for name, trouble in getattr(found, "errors", {}).items():
            parts.miss(f"{what} {plain(name)}", trouble)
        return found

    cluster = attempt("nodes", lambda: admin.describe_cluster(include_fenced=True))
    attempt("quorum", admin.describe_metadata_quorum)
    topics = attempt("topics", lambda: admin.list_topics(internal=True))
    names = sorted(each.name for each in topics or ())
    for number, piece in enumerate(pieces(names)):
        attempt(f"partitions-{number}", partial(admin.describe_topics, *piece))
        resources = map(Resource.topic, piece)
        attempt(f"topic-configs-{number}", partial(admin.describe_configs, *resources))
    active = [node for node in cluster.nodes if node.state is not NodeState.FENCED] if cluster else []
    for node in active:
        resource = Resource.broker(node.node_id)
        attempt(f"node-configs-{node.node_id}", partial(admin.describe_configs, resource, synonyms=True))
    attempt("cluster-configs", lambda: admin.describe_configs(Resource.broker()))
    attempt("log-dirs", lambda: admin.describe_log_dirs(None))
    attempt("reassignments", admin.list_partition_reassignments)
    attempt("quotas", admin.describe_client_quotas)
    groups = attempt("groups", admin.list_groups)
    ids = [each.group_id for each in groups or ()][:MAX_GROUPS]
    if ids:
        attempt("group-members", lambda: admin.describe_groups(*ids))
        attempt("group-lag", lambda: admin.consumer_group_lag(*ids))
    transactions = attempt("transactions", admin.list_transactions)
    open_ids = [each.transactional_id for each in transactions or ()][:MAX_TRANSACTIONS]
    if open_ids:
        attempt("transaction-states", lambda: admin.describe_transactions(*open_ids))


def plain(value: Any) -> Any:
    """A result of the admin client as JSON-able values."""
    found: Any = value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
    if isinstance(value, Enum):
        found = value.name.lower()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    elif isinstance(value, Mapping):
        found = {_key(key): plain(each) for key, each in value.items() if _is_there(value, key)}
    elif isinstance(value, bytes):
        found = value.hex()
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        found = {name: plain(each) for name, each in value._asdict().items()}
    elif isinstance(value, (list, tuple, set, frozenset)):
        found = [plain(each) for each in value]
    return found


def _is_there(results: Mapping[Any, Any], key: Any) -> bool:
    return key not in getattr(results, "errors", {})


def _key(key: Any) -> str:
    if isinstance(key, tuple) and hasattr(key, "_asdict"):
        return "-".join(map(str, key))
    if isinstance(key, Resource):
        return f"{key.kind} {key.name}"
    return key if isinstance(key, str) else str(plain(key))
