"""The connections of a new client: those of a cluster that it shares, or its own; and its config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...runtime.config import Config
from ..config import ConnectionConfig, given, resolve
from .async_cluster_io import AsyncClusterIo
from .cluster_io import ClusterIo
from .environment_io import environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .async_cluster_io import AsyncSharedCluster
    from .cluster_io import SharedCluster

C = TypeVar("C", bound=Config)
Io = TypeVar("Io", ClusterIo, AsyncClusterIo)


def attach(
    kind: type[Io],
    bootstrap: str | Iterable[str] | SharedCluster | AsyncSharedCluster | None,
    schema: type[C],
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> tuple[Io, C]:
    """(the connections, the client's config).

    A client of a shared cluster takes the keys that it does not set from the cluster's configuration; keys of
    connections are arguments of `connect` then. Errors: ConfigError.
    """
    shared = getattr(bootstrap, "io", None)
    if isinstance(shared, kind):
        values = {**shared.values, **given(config, options, (schema,))}
        return shared, resolve(schema, values, environment())
    values = given(config, options, (schema, ConnectionConfig))
    resolved = resolve(schema, values, environment())
    return kind(bootstrap, values, is_owned=True), resolved  # type: ignore[arg-type]
