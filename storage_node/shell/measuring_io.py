"""The node as its exporters see it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...protocol.security.server_keys import NODE
from ...runtime.clock_io import monotonic_ms, wall_ms
from ...runtime.loop_load import LoopLoad
from ...runtime.telemetry import node_table as table
from ...runtime.telemetry.server_measures import measure_loop, measure_router
from ..node_metrics import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...protocol.transport.router_io import Router
    from ...runtime.telemetry.samples import Samples
    from ..configs.node_config import NodeConfig
    from ..edge.gateway_io import NodeGateway
    from ..links.controller_link_io import ControllerLink
    from ..node import StorageNode

# Kafka's BrokerState by the state of the membership
_STATES = {"searching": 1, "registering": 1, "fenced": 2, "active": 3, "shutting_down": 6, "shut_down": 7}


class NodeMeasures:
    """Implements Measured. Made before the parts that it measures, which the first reading finds."""

    role = NODE

    def __init__(
        self, config: NodeConfig, gateway: NodeGateway, identity: Callable[[], tuple[int, str]]
    ) -> None:
        """`identity`: the ids of node and cluster."""
        self._config, self._gateway, self._identity = config, gateway, identity
        self.load = LoopLoad()
        self._parts: tuple[StorageNode, Router, ControllerLink] | None = None

    def take(self, core: StorageNode, router: Router, link: ControllerLink) -> None:
        """The parts of the started node."""
        self._parts = core, router, link

    def tick(self) -> None:
        """Called about each second on the loop."""
        self.load.look(time.monotonic(), time.thread_time())

    @property
    def server_id(self) -> int:
        """Part of Measured."""
        return self._identity()[0]

    @property
    def cluster_id(self) -> str:
        """Part of Measured."""
        return self._identity()[1]

    @property
    def data_dirs(self) -> Sequence[str]:
        """Part of Measured."""
        return self._config.log_dirs

    def metric_pieces(self, samples: Samples) -> Iterator[None]:
        """Part of Measured."""
        assert self._parts is not None, "the exporters start with the node"
        core, router, link = self._parts
        config, now_ms = core.config.now, monotonic_ms()
        measure_loop(samples, self.load, link.stalls, now_ms)
        pending = router.pending_response_bytes
        measure_router(samples, router.stats, router.connections, router.queued_bytes, pending)
        samples.set(table.BROKER_STATE, _STATES.get(link.membership.state.value, 0))
        samples.set(table.METADATA_AGE, link.silence_ms(now_ms) / 1000)
        self._gateway.measure(samples)
        yield
        limits = Limits(config.metrics_max_partitions, config.metrics_max_topics)
        yield from core.metrics.pieces(samples, now_ms, wall_ms(), limits)

    def stored_port(self, name: str) -> int:
        """Part of Measured."""
        return self._gateway.stored_port(name)

    def store_port(self, name: str, port: int) -> None:
        """Part of Measured."""
        self._gateway.store_port(name, port)
