"""The clients of an instance: all of them connect to one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.cluster.attach_io import security_protocol
from ...clients.config import AdminConfig
from ...clients.sync.admin_io import Admin
from ...clients.sync.consumer_io import Consumer
from ...clients.sync.producer_io import Producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...clients.group.streams import StreamsApplication


class Clients:
    """`bootstrap` as for `Producer`."""

    def __init__(self, bootstrap: Any) -> None:
        self._bootstrap = bootstrap

    def consumer(
        self, config: Mapping[str, Any], streams: StreamsApplication | None = None
    ) -> Consumer[bytes, bytes]:
        """A consumer of bytes; with `streams` a member of a streams group."""
        return Consumer(bootstrap=self._bootstrap, config=dict(config), assignors=streams)

    def producer(self, config: Mapping[str, Any]) -> Producer[bytes, bytes]:
        """A producer of bytes."""
        return Producer(self._bootstrap, config=dict(config))

    def admin(self, config: Mapping[str, Any]) -> Admin:
        return Admin(self._bootstrap, config=dict(config))

    def security_protocol(self, config: Mapping[str, Any]) -> str:
        """That of the connections of an admin client."""
        return security_protocol(self._bootstrap, AdminConfig, config)
