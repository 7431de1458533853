"""The connections of a new client: those of a cluster that it shares, or its own; and its config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...runtime.config import Config
from ..config import ConnectionConfig, given
from .async_cluster_io import AsyncClusterIo
from .cluster_io import ClusterIo
from .environment_io import resolved

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
        return shared, resolved(schema, values)
    values = given(config, options, (schema, ConnectionConfig))
    own = resolved(schema, values)
    return kind(bootstrap, values, is_owned=True), own  # type: ignore[arg-type]


def security_protocol(bootstrap: Any, schema: type[Config], config: Mapping[str, Any]) -> str:
    """The security protocol of the connections of a client that is made with these arguments. Errors:
    ConfigError."""
    shared = getattr(bootstrap, "io", None)
    values = given(config, {}, (schema, ConnectionConfig)) if shared is None else shared.values
    return resolved(ConnectionConfig, values).protocol
