"""Many connections of Kafka's clients beside a live producer, and what an idle one costs of memory."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headrace.runtime.waiting_io import let_pass

from . import machine_io
from .children_io import LostDataError
from .group import CONNECTION_KB, CONNECTIONS, KAFKA, VISIT_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .group import Cell
    from .session_io import Session
    from .systems_io import Headrace, Kafka, System

READY_TIMEOUT_S = 60.0
SETTLE_S = 0.5
WARM = 20  # connections before, so that what the first one makes is not taken for its own
_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)


@contextlib.contextmanager
def at_work(session: Session, name: str, spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The order of the client that makes them, see `loops/connections.py`; its topic goes at the end."""
    system, topic = session.systems[name], session.new_topic(name, 1)
    try:
        times = {part: spec[part] for part in ("warm_s", "seconds")}
        yield {**times, **spec["connections"], "client": KAFKA, "topic": topic}
    finally:
        system.delete_topic(topic)


def figures(system: System, order: dict[str, Any], report: dict[str, Any]) -> dict[str, float]:
    """Visits a second of those that come and go. Errors: LostDataError when a record of theirs is missing."""
    if "produced" not in report:
        return {}
    found = cast("Headrace | Kafka", system).end_offset(order["topic"])
    if found != report["produced"]:
        raise LostDataError(f"{system.name}: visitors produced {report['produced']} records, kept {found}")
    return {
        CONNECTIONS: report["visits"] / report["timed_s"],
        "visit_p99_ms": report["visit"]["p99"],
        VISIT_CPU: 1000 * report["server_cpu_s"] / report["all_visits"],
    }


def memory(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """KB of memory for each of so many idle connections to a fresh server that nobody else uses."""
    folder = Path(tempfile.mkdtemp(prefix="memory-", dir=session.scratch))
    system = session.started(cell.system, folder)
    try:
        system.create_topic("idle", 1)
        with connected(session, system, WARM):
            pass
        before = used_bytes(system)
        with connected(session, system, spec["connections"]):
            let_pass(SETTLE_S)
            after = used_bytes(system)
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return {CONNECTION_KB: (after - before) / spec["connections"] / 1000}


@contextlib.contextmanager
def connected(session: Session, system: System, count: int) -> Iterator[None]:
    """So many idle connections while it lasts."""
    order = {"loop": "idle", "count": count, "topic": "idle", "warm_s": 0.0, "seconds": 0.0,
             "bootstrap": system.kafka_bootstrap}  # fmt: skip
    child = session.children.start("idle", "worker", json.dumps(order), cores=session.client_cores)
    try:
        child.line(READY_TIMEOUT_S)
        yield
    finally:
        session.children.end(child)


def used_bytes(system: System) -> int:
    """Resident, or what lives on a JVM's heap: a JVM's resident memory tells only what it once touched."""
    (pid,) = system.node_pids
    if system.name != KAFKA:
        return machine_io.sample(pid).rss
    command = ["jcmd", str(pid), "GC.class_histogram"]  # it collects all garbage first
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=True)
    found = _TOTAL.search(done.stdout)
    assert found is not None, done.stdout[-500:]
    return int(found[1])
