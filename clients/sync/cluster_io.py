# Made by `python -m headrace.services.sync_clients` from clients/aio/cluster_io.py: edit that file.
"""The synchronous `connect`: one set of connections and one metadata cache for several clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..cluster.cluster_io import ClusterIo, SharedCluster
from ..cluster.hub_io import MakeHub, zmq_hub
from ..config import ClientConfigs, given
from ..losses_io import raise_unless
from ..producer.partitioner import murmur2_sticky
from ..serdes import bytes_

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from ..consumer.arguments import OnDeserializeError
    from ..consumer.interceptors import SomeConsumerInterceptor
    from ..group.joining_io import SomeAssignors
    from ..group.listeners import SomeListener
    from ..options import AdminOptions, ConnectionOptions, ConsumerOptions, ProducerOptions
    from ..producer.partitioner import Partitioner
    from ..producer.record_preparer_io import SomeProducerInterceptor
    from ..records import K, V
    from ..serdes import Deserializer, Serializer
    from .admin_io import Admin
    from .consumer_io import Consumer
    from .producer_io import Producer

_BYTES: Any = bytes_


class ClientFactory:
    """Makes the clients of one cluster."""

    def _target(self) -> str | SharedCluster:
        """The `bootstrap` of the clients."""
        raise NotImplementedError

    def _config_of_client(
        self, config: Mapping[str, Any] | None, _options: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The `config` of a client that is made with these arguments."""
        return config

    def _made(self, client: Producer[Any, Any] | Consumer[Any, Any] | Admin) -> None:
        """Called with each client."""

    def producer(
        self,
        *,
        key: Serializer[K] = _BYTES,
        value: Serializer[V] = _BYTES,
        partitioner: Partitioner = murmur2_sticky,
        interceptors: Iterable[SomeProducerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> Producer[K, V]:
        """A producer on this cluster; arguments as of `Producer`."""
        from .producer_io import Producer

        client = Producer(
            self._target(),
            key=key,
            value=value,
            partitioner=partitioner,
            interceptors=interceptors,
            config=self._config_of_client(config, options),
            **options,
        )
        self._made(client)
        return client

    def consumer(
        self,
        *topics: str,
        key: Deserializer[K] = _BYTES,
        value: Deserializer[V] = _BYTES,
        iter_timeout: float | None = None,
        on_deserialize_error: OnDeserializeError = "raise",
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        assignors: SomeAssignors | None = None,
        interceptors: Iterable[SomeConsumerInterceptor] = (),
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer[K, V]:
        """A consumer on this cluster; arguments as of `Consumer`."""
        from .consumer_io import Consumer

        client = Consumer(
            *topics,
            bootstrap=self._target(),
            key=key,
            value=value,
            iter_timeout=iter_timeout,
            on_deserialize_error=on_deserialize_error,
            pattern=pattern,
            listener=listener,
            assignors=assignors,
            interceptors=interceptors,
            config=self._config_of_client(config, options),
            **options,
        )
        self._made(client)
        return client

    def admin(self, *, config: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> Admin:
        """An admin client on this cluster; arguments as of `Admin`."""
        from .admin_io import Admin

        client = Admin(self._target(), config=self._config_of_client(config, options), **options)
        self._made(client)
        return client


class Cluster(ClientFactory, SharedCluster):
    """A cluster to make clients from; closing it closes them. Thread-safe.

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

    def _target(self) -> SharedCluster:
        return self

    def close(self, timeout: float | None = None) -> None:
        """Close all clients of this cluster, flushing producers, within `timeout` seconds.

        Errors: the first one of a client, after everything is closed; the others are logged.
        """
        self.io.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as lost:  # noqa: BLE001 - raised, or logged behind the block's own
            raise_unless(error, lost)


def connect(
    bootstrap: str | Iterable[str] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    **options: Unpack[ConnectionOptions],
) -> Cluster:
    """Open a cluster for several clients; None takes HEADRACE_BOOTSTRAP, or finds the one on Ray.

    Returns at once: the first request of a client opens a connection. Errors: ConfigError.
    """
    return Cluster(bootstrap, config=config, **options)
