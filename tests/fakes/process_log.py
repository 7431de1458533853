"""Common parts of servers in their own processes: the serving loop and the log on stderr."""

import asyncio
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import stall_watch

VARIABLE = "HEADRACE_LOG"
STALLS = "HEADRACE_STALLS"  # set: say where the event loop stood still
DISK_STALL = "HEADRACE_DISK_STALL"  # a file; while it exists, every fsync takes as many ms longer as it says


def log_as_asked() -> None:
    """At the level that HEADRACE_LOG names; without it at Python's default."""
    level = os.environ.get(VARIABLE)
    if level:
        logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")


async def serve(server: Any) -> None:
    """Start a node or a controller, print "ready PORT", and serve until SIGTERM or its own end."""
    if stall_file := os.environ.get(DISK_STALL):
        _slow_down_disk(Path(stall_file))
    if os.environ.get(STALLS):
        stall_watch.watch(asyncio.get_running_loop())
    await server.start()
    running = asyncio.create_task(server.run())
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    running.add_done_callback(lambda _: terminated.set())
    sys.stdout.write(f"ready {server.port}\n")
    sys.stdout.flush()
    await terminated.wait()
    await server.stop()
    await running


def _slow_down_disk(stall_file: Path) -> None:
    """A disk with late journal commits: synced data is as durable as ever, only later."""
    real_fdatasync, real_fsync = os.fdatasync, os.fsync

    def stall() -> None:
        if stall_file.exists():
            threading.Event().wait(int(stall_file.read_text()) / 1000)

    def fdatasync(number: int) -> None:
        stall()
        real_fdatasync(number)

    def fsync(number: int) -> None:
        stall()
        real_fsync(number)

    os.fdatasync, os.fsync = fdatasync, fsync  # type: ignore[assignment]
