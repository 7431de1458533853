"""One cleaning of a log: made once for both systems, copied for each time, cleaned by a process of its own.

A JVM cleans two copies first, to be warm. Neither system serves anything here, and no node of them is used.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import kafka_io
from .children_io import ChildError
from .group import CPU_PER_GB, KAFKA, MAP_BYTES

if TYPE_CHECKING:
    from .group import Cell
    from .session_io import Session

PROGRAM = Path(__file__).with_name("KafkaCleaner.java")
WARM_ROUNDS = 2
TIMEOUT_S = 300.0
# What each system needs for a key, its hash and its offset; and how full both let their maps become.
KAFKA_ENTRY_BYTES, HEADRACE_ENTRY_BYTES, LOAD_FACTOR = 24, 24, 0.9
MB, GB = 1e6, 1e9


def clean(session: Session, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
    """MB/s of log, both passes together, and bytes of offset map per key. Errors: ChildError."""
    keys = spec["count"] // spec["records_per_key"]
    entry_bytes = KAFKA_ENTRY_BYTES if cell.system == KAFKA else HEADRACE_ENTRY_BYTES
    # room for all keys, with a little to spare: the draw of keys may leave some out, none is in twice
    spec = {**spec, "keys": keys, "map_bytes": int(keys / LOAD_FACTOR * 1.05) * entry_bytes}
    made = _made(session, spec)
    copies = [_copied(session, made) for _ in range(1 + WARM_ROUNDS if cell.system == KAFKA else 1)]
    try:
        found = (
            _by_kafka(session, spec, copies)
            if cell.system == KAFKA
            else _by_headrace(session, spec, copies[0])
        )
    finally:
        for copy in copies:
            shutil.rmtree(copy.parent, ignore_errors=True)
    return {
        **found,
        "records_per_s": spec["count"] / found["seconds"],
        "mb_per_s": found["bytes"] / found["seconds"] / MB,
        CPU_PER_GB: found["server_cpu_s"] / found["bytes"] * GB,
        MAP_BYTES: entry_bytes / LOAD_FACTOR,
    }


def _made(session: Session, spec: dict[str, Any]) -> Path:
    """The folder of the log that this spec describes; made once in a session."""
    name = "-".join(str(spec[part]) for part in ("size", "count", "compression", "keys"))
    folder = session.scratch / f"log-{name}" / "cleaned-0"
    if not folder.exists():
        folder.parent.mkdir()
        order = {**spec, "loop": "makelog", "folder": str(folder)}
        session.children.work([order], cores=session.client_cores, timeout_s=TIMEOUT_S)
    return folder


def _copied(session: Session, made: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="clean-", dir=session.scratch)) / made.name
    shutil.copytree(made, folder)
    return folder


def _by_headrace(session: Session, spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    order = {**spec, "folder": str(folder)}
    if session.profile:
        order["profile"] = f"{session.profile}.clean"
    (found,) = session.children.work([order], cores=session.client_cores[:1], timeout_s=TIMEOUT_S)
    # the process that cleans is what a server would be
    return {**found, "server_cpu_s": found["client_cpu_s"]}


def _by_kafka(session: Session, spec: dict[str, Any], folders: list[Path]) -> dict[str, Any]:
    """What the last of its rounds took."""
    command = [
        "java",
        *kafka_io.SERVER_JVM,
        "-cp",
        kafka_io.classpath(),
        str(PROGRAM),
        str(spec["map_bytes"]),
    ]
    # a JVM compiles and collects in threads of its own: they get the cores that its server would have
    with kafka_io.pinned(session.client_cores):
        done = subprocess.run(
            [*command, *map(str, folders)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    if done.returncode:
        raise ChildError(f"Kafka's cleaner: {done.stdout}{done.stderr}"[-3000:])
    size, seconds, index_s, cpu_s, kept = map(float, done.stdout.splitlines()[-1].split())
    return {"bytes": size, "seconds": seconds, "index_s": index_s, "server_cpu_s": cpu_s, "kept_bytes": kept}
