"""How a client finds its cluster: one of its own, or one that it shares; and its config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...runtime.config import Config
from ..cluster.cluster_io import ClusterIo
from ..cluster.environment_io import environment
from ..config import ConnectionConfig, given, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .cluster_io import Cluster

C = TypeVar("C", bound=Config)


def attach(
    bootstrap: str | Iterable[str] | Cluster | None,
    schema: type[C],
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> tuple[ClusterIo, C, bool]:
    """(the cluster's IO, the client's config, whether the client owns that cluster).

    A client of a shared cluster takes what the cluster was configured with where it is not given itself;
    keys of connections belong to `connect` then. Errors: ConfigError.
    """
    shared = getattr(bootstrap, "io", None)
    if isinstance(shared, ClusterIo):
        values = {**shared.values, **given(config, options, (schema,))}
        return shared, resolve(schema, values, environment()), False
    values = given(config, options, (schema, ConnectionConfig))
    resolved = resolve(schema, values, environment())
    return ClusterIo(bootstrap, values), resolved, True  # type: ignore[arg-type]
