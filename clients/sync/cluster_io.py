"""`connect`: one IO thread, one set of connections and one metadata cache for several clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..cluster.cluster_io import ClusterIo
from ..cluster.hub_io import MakeHub, zmq_hub
from ..config import ClientConfigs, given

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..options import ConnectionOptions
    from .admin_io import Admin
    from .consumer_io import Consumer
    from .producer_io import Producer


class Cluster:
    """A cluster to make clients from. Closing it closes them.

    `config` may hold keys of any client; they are the defaults of the clients made here.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        make_hub: MakeHub = zmq_hub,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        self.io = ClusterIo(bootstrap, given(config, options, ClientConfigs), make_hub)

    def producer(self, **options: Any) -> Producer[Any, Any]:
        """A producer on this cluster; arguments as of `Producer`."""
        from .producer_io import Producer

        return Producer(self, **options)

    def consumer(self, *topics: str, **options: Any) -> Consumer[Any, Any]:
        """A consumer on this cluster; arguments as of `Consumer`."""
        from .consumer_io import Consumer

        return Consumer(*topics, bootstrap=self, **options)

    def admin(self, **options: Any) -> Admin:
        """An admin client on this cluster; arguments as of `Admin`."""
        from .admin_io import Admin

        return Admin(self, **options)

    def close(self, timeout: float | None = None) -> None:
        """Close all clients of this cluster, flushing producers, within `timeout` seconds."""
        self.io.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    bootstrap: str | Iterable[str] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    **options: Unpack[ConnectionOptions],
) -> Cluster:
    """Open a cluster for several clients; None takes HEADRACE_BOOTSTRAP, or finds the one on Ray.

    Returns at once: nothing is connected before a client asks. Errors: ConfigError.
    """
    return Cluster(bootstrap, config=config, **options)
