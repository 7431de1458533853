"""The metrics that every server has: its event loop and its native listener. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import process_table as table
from .node_table import REQUEST_BYTES_HELD, RESPONSE_BYTES_HELD

if TYPE_CHECKING:
    from ...protocol.transport.stats import RouterStats
    from ..loop_load import LoopLoad
    from ..stalls import StallMeter
    from .samples import Samples

NATIVE = "native"  # the label of the listener


def measure_loop(samples: Samples, load: LoopLoad, stalls: StallMeter, now_ms: int) -> None:
    """The loop that runs this."""
    samples.set(table.LOOP_IDLE, load.idle_ratio())
    samples.set(table.LOOP_STALL, max(stalls.longest_ms(now_ms), 0) / 1000)
    samples.set(table.LOOP_STALLS, stalls.count)


def measure_router(
    samples: Samples, stats: RouterStats, connections: int, held_bytes: int, pending_bytes: int
) -> None:
    """The native listener."""
    samples.set(table.CONNECTIONS, connections, NATIVE)
    samples.set(table.ACCEPTED, stats.connections_accepted, NATIVE)
    samples.set(table.REFUSED, stats.connections_refused + stats.peers_dropped, NATIVE)
    samples.set(table.HANDSHAKES_FAILED, stats.handshakes_failed, NATIVE)
    samples.set(table.AUTHENTICATED, stats.authentications, NATIVE)
    samples.set(
        table.AUTHENTICATIONS_FAILED, stats.authentications_failed + stats.authentications_overdue, NATIVE
    )
    samples.set(REQUEST_BYTES_HELD, held_bytes, NATIVE)
    samples.set(RESPONSE_BYTES_HELD, pending_bytes, NATIVE)
