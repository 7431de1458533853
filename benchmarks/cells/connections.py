"""Many connections of Kafka clients in parallel with an open loop, and the memory of an idle one. Pure."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..constants import CONNECTION_KB, CONNECTIONS, KAFKA, VISIT_CPU, VISIT_P99
from ..harness import LostDataError
from .cell import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..harness import Harness, Order, Report, System

READY_TIMEOUT_S = 60.0
SETTLE_S = 0.5
WARM_CONNECTIONS = 20  # opened and closed first: what the first connection allocates is not its own cost


@contextlib.contextmanager
def order(harness: Harness, system: str, spec: dict[str, Any]) -> Iterator[Order]:
    """The order of the client that opens them, see `loops/connections.py`, with a topic of its own."""
    with harness.topic(system, 1) as topic:
        times = {"warm_s": spec["warm_s"], "seconds": spec["seconds"]}
        found = {**times, **spec["connections"], "client": KAFKA, "topic": topic}
        tls = harness.system(system).tls
        if spec["connections"].get("has_tls"):
            assert tls is not None, "the group has no TLS"
            found |= {"bootstrap": tls.ssl, "ca_file": tls.ca_file}
        yield found


def figures(system: System, order: Order, report: Report) -> dict[str, float]:
    """Connections per second of clients that connect and disconnect; nothing for idle ones.

    Errors: LostDataError when a record that they produced is missing.
    """
    if "produced" not in report:
        return {}
    found = system.end_offset(order["topic"])
    if found != report["produced"]:
        raise LostDataError(
            f"{system.name}: visitors produced {report['produced']} records, {found} are stored"
        )
    return {
        CONNECTIONS: report["visits"] / report["timed_s"],
        VISIT_P99: report["visit"]["p99"],
        VISIT_CPU: 1000 * report["server_cpu_s"] / report["all_visits"],
    }


class ConnectionMemoryCell(Cell):
    """Memory of a fresh server for each of `connections` idle connections of Kafka clients."""

    reports = frozenset({CONNECTION_KB})

    def run(self, harness: Harness) -> dict[str, Any]:
        count = self.spec["connections"]
        with harness.start_system(self.system) as system:
            system.create_topic("idle", 1)
            with _connected(harness, system, WARM_CONNECTIONS):
                pass
            before = harness.memory_bytes(system)
            with _connected(harness, system, count):
                harness.sleep(SETTLE_S)
                after = harness.memory_bytes(system)
        return {CONNECTION_KB: (after - before) / count / 1000}


@contextlib.contextmanager
def _connected(harness: Harness, system: System, count: int) -> Iterator[None]:
    order = {"loop": "idle", "count": count, "topic": "idle", "warm_s": 0.0, "seconds": 0.0,
             "bootstrap": system.kafka_bootstrap}  # fmt: skip
    with harness.client(order) as client:
        client.line(READY_TIMEOUT_S)
        yield
