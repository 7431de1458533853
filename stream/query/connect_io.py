"""Handles for queries: of an application whose program is available, or by application id only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.producer.partitioner import murmur2_sticky
from ...clients.serdes import Serde, bytes_
from ...clients.sync.admin_io import Admin
from ..topology.serdes import resolve
from .client_io import TIMEOUT_S, Queries
from .errors import WrongStoreKindError
from .hosts_io import GroupHosts
from .secrets_io import query_keys
from .security_config import split_query_security

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.producer.partitioner import Partitioner
    from ..task.settings import TaskSettings
    from ..topology.built import BuiltTopology
    from .hosts_io import Hosts
    from .secrets_io import QueryKeys


def connect_queries(
    application_id: str,
    bootstrap: Any = None,
    *,
    key: Serde[Any] = bytes_,
    value: Serde[Any] = bytes_,
    serdes: Mapping[str, tuple[Serde[Any], Serde[Any]]] | None = None,
    partitioner: Partitioner = murmur2_sticky,
    timeout_s: float = TIMEOUT_S,
    config: Mapping[str, Any] | None = None,
) -> Queries:
    """A handle for queries about an application that runs anywhere, with `application.server` set.

    `bootstrap` as for `Producer`. `key` and `value` are the serdes of its stores, `serdes` those of single
    stores by name. `partitioner`: how the producers of its input topics distribute keys. If the program of
    the application is available, `App.queries` sets all of them. `config`: keys of `Admin`, which finds the
    instances, and `query.secret.file` or `query.secret` if the instances require it.
    """
    known = dict(serdes or {})
    security, given = split_query_security(config or {})
    keys = query_keys(security, application_id)
    hosts = GroupHosts(application_id, Admin(bootstrap, config=given))
    return Queries(
        application_id,
        hosts,
        lambda store: known.get(store, (key, value)),
        partitioner=partitioner,
        timeout_s=timeout_s,
        keys=keys,
    )


def queries_of(
    application_id: str,
    built: BuiltTopology,
    settings: TaskSettings,
    hosts: Hosts,
    *,
    partitioner: Partitioner = murmur2_sticky,
    timeout_s: float = TIMEOUT_S,
    keys: QueryKeys | None = None,
) -> Queries:
    """A handle with the serdes of a topology."""
    return Queries(
        *(application_id, hosts, _serdes_of(built, settings)),
        partitioner=partitioner,
        timeout_s=timeout_s,
        keys=keys,
    )


def _serdes_of(
    built: BuiltTopology, settings: TaskSettings
) -> Callable[[str], tuple[Serde[Any], Serde[Any]]]:
    builders: dict[str, Any] = {}
    known = [built.sub_topology(number).stores for number in built.sub_topology_ids]
    global_topology = built.global_topology()
    if global_topology is not None:
        known.append(global_topology.global_stores)
    for stores in known:
        builders.update((builder.name, builder) for builder in stores)

    def serdes(name: str) -> tuple[Serde[Any], Serde[Any]]:
        builder = builders.get(name)
        if builder is None:
            raise WrongStoreKindError(f"store {name!r} is not in this version of the application's program")
        defaults = {"key": settings.key_serde, "value": settings.value_serde}
        found = [resolve(getattr(builder, f"{each}_serde"), each, **defaults) for each in defaults]
        if not all(isinstance(each, Serde) for each in found):
            raise WrongStoreKindError(
                f"the serdes of store {name!r} need the context of records: give others to connect_queries"
            )
        return found[0], found[1]

    return serdes
