"""The node's side of its gateway: the interface for the gateway, quotas, and the ports of its last run."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError, KafkaStorageError
from ...protocol.transport.listen_errors import listen_error
from ...runtime.clock_io import monotonic_ms
from ...runtime.listener_address import port_file_name, store_port, stored_port
from ..effects import AskPeer
from .audit_notes_io import AuditNotes
from .charges_io import OwnCharges
from .gate import admitted
from .gateway import BothPlanes, OwnRequest
from .node_quotas import NodeQuotas
from .request_meter import RequestMeter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.metadata.image import MetadataImage
    from ...protocol.model import ListenerEndpoint
    from ...protocol.transport.peers import Peer, Request
    from ...protocol.transport.replies import Replies
    from ...runtime.authorization.gate import Gate
    from ...runtime.files.file_layer import Files
    from ...runtime.telemetry.samples import Samples
    from ..configs.live_config import LiveConfig
    from ..configs.node_config import NodeConfig
    from ..links.replication_io import Replication
    from ..node import StorageNode
    from .gateway import Gateway, GatewayFactory


class NodeGateway:
    """The gateway of a node, if it has one. Implements GatewayHost. Without a gateway its methods do
    nothing."""

    def __init__(
        self,
        factory: GatewayFactory | None,
        config: NodeConfig,
        files: Files,
        handle: Callable[[Any], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`handle` takes requests as from the node's own listener."""
        self._files = files
        self._directory = config.log_dirs[0]
        self._own_id = config.node_id  # before the node has joined
        self._handle = handle
        self._fail = fail
        self._core: StorageNode | None = None
        self._replication: Replication | None = None
        self._perform: Callable[[], None] = _nothing
        self.endpoints: tuple[ListenerEndpoint, ...] = ()  # once bound
        self.quotas = NodeQuotas(lambda: self.config.now, lambda: self.image)
        self.requests = RequestMeter(time.perf_counter)
        self._replies: Replies | None = None
        self._charges: OwnCharges | None = None
        self._gateway: Gateway | None = factory(self) if factory and config.listeners else None

    # --- what the node's shell calls ---------------------------------------------------------------------

    def replies(self, own: Replies) -> Replies:
        """The target of the core's responses, around that of the node's own listener."""
        charges = self._charges = OwnCharges(own, self.quotas, lambda: self.image, self._handle, self._fail)
        self._replies = BothPlanes(charges, self.requests)
        return self._replies

    def take(self, request: Request) -> None:
        """A request of the node's own listener. Errors: KafkaError, its response."""
        assert self._charges is not None, "bound"
        self._charges.take(request)

    def admitted(self, request: Any) -> Any:
        """The request, or its authorized part; None if a response was sent. Errors: KafkaError, its
        response."""
        gate = self._node.gate
        if gate.authorizer is None:
            return request
        assert self._replies is not None, "bound"
        self._node.authorization.note_time(monotonic_ms())
        return admitted(gate, request, self._replies)

    def peer_gone(self, peer: Peer) -> None:
        """A connection of the node's own listener is closed."""
        if self._charges is not None:
            self._charges.peer_gone(peer)

    def bind(self, core: StorageNode) -> tuple[ListenerEndpoint, ...]:
        """Bind the listeners; the addresses to register. Errors: OSError, which names node and address."""
        self._core = core
        core.gate.audit = AuditNotes(core)
        if self._gateway is not None:
            try:
                self.endpoints = self._gateway.bind()
            except OSError as error:
                raise listen_error(f"node {self._own_id}", error) from error
        return self.endpoints

    async def start(self, replication: Replication, perform: Callable[[], None]) -> None:
        """Accept clients."""
        self._replication, self._perform = replication, perform
        if self._gateway is not None:
            await self._gateway.start()

    def check(self, config: NodeConfig) -> None:
        """Whether the listeners can have this configuration. Errors: ConfigError."""
        if self._gateway is not None:
            self._gateway.check(config)

    async def stop(self) -> None:
        """Complete requests in flight and close all connections."""
        if self._charges is not None:
            self._charges.close()
        if self._gateway is not None:
            await self._gateway.stop()

    def close(self) -> None:
        """Close all connections now."""
        if self._charges is not None:
            self._charges.close()
        if self._gateway is not None:
            self._gateway.close()

    @property
    def pending_response_bytes(self) -> int:
        """Response bytes that clients have not received."""
        return 0 if self._gateway is None else self._gateway.pending_response_bytes

    def status(self) -> dict[str, Any]:
        """JSON-able."""
        return {} if self._gateway is None else {"kafka": self._gateway.status()}

    def measure(self, samples: Samples) -> None:
        """Add the values of requests, quotas and the gateway's connections."""
        self.requests.write(samples)
        self.quotas.measure(samples)
        if self._gateway is not None:
            self._gateway.measure(samples)

    # --- what the gateway uses ---------------------------------------------------------------------------

    @property
    def _node(self) -> StorageNode:
        assert self._core is not None, "bound"
        return self._core

    @property
    def config(self) -> LiveConfig:
        """Part of GatewayHost."""
        return self._node.config

    @property
    def image(self) -> MetadataImage:
        """Part of GatewayHost."""
        return self._node.image

    @property
    def gate(self) -> Gate:
        """Part of GatewayHost."""
        return self._node.gate

    @property
    def node_id(self) -> int:
        """Part of GatewayHost."""
        return self._node.table.node_id

    def handle(self, request: OwnRequest) -> None:
        """Part of GatewayHost."""
        try:
            self._handle(request)
        except KafkaError as error:
            request.answered(error, ())
        except Exception as error:  # noqa: BLE001 -- what the node's own listener would end with, too
            self._fail(error)

    def ask(self, node_id: int, request: OwnRequest, timeout_ms: int) -> None:
        """Part of GatewayHost."""
        assert self._replication is not None, "started"
        try:
            left: OwnRequest | None = self.admitted(request)
        except KafkaError as error:
            request.answered(error, ())
            return
        if left is not None:
            answered = left.answered
            effect = AskPeer(
                node_id, left.api, left.body, timeout_ms, lambda outcome, _now, _wall: answered(outcome, ())
            )
            self._replication.ask_peer(effect)

    def connection_gone(self, session: int) -> None:
        """Part of GatewayHost."""
        self._node.connection_gone(session, monotonic_ms())
        self._perform()

    def stored_port(self, name: str) -> int:
        """Part of GatewayHost."""
        return stored_port(self._files, self._directory, port_file_name(name))

    def store_port(self, name: str, port: int) -> None:
        """Part of GatewayHost."""
        with contextlib.suppress(KafkaStorageError):  # the log manager reports disk failures
            store_port(self._files, self._directory, port, port_file_name(name))

    def fail(self, error: BaseException) -> None:
        """Part of GatewayHost."""
        self._fail(error)


def _nothing() -> None:
    pass
