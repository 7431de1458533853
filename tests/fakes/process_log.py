"""Common parts of server processes: the serving loop and the log on stderr."""

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
STALLS = "HEADRACE_STALLS"  # if set, stalls of the event loop are logged with their stacks
DISK_STALL = (
    "HEADRACE_DISK_STALL"  # a file with a number of ms; while it exists, every fsync is delayed by them
)
READ_STALL = "HEADRACE_READ_STALL"  # a file; while it exists, reads of threads do not return
LOOP_STALL = "HEADRACE_LOOP_STALL"  # a file; from SIGUSR1 on, the event loop stands still while it exists
LOOK_S = 0.05


def log_as_asked() -> None:
    """Set the log level by HEADRACE_LOG; Python's default without it."""
    level = os.environ.get(VARIABLE)
    if level:
        logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")


async def serve(server: Any) -> None:
    """Start a node or a controller, print "ready PORT", and serve until SIGTERM or its own end."""
    if stall_file := os.environ.get(DISK_STALL):
        _slow_down_disk(Path(stall_file))
    if read_file := os.environ.get(READ_STALL):
        _hold_reads(Path(read_file))
    if loop_file := os.environ.get(LOOP_STALL):
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _stand_still, Path(loop_file))
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
    """Simulate a disk with slow journal commits: fsync is delayed, but still durable."""
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


def _hold_reads(read_file: Path) -> None:
    """Simulate a disk whose reads hang; those of the event loop find their bytes in memory."""
    real_pread = os.pread

    def pread(number: int, size: int, position: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            _stand_still(read_file)
        return real_pread(number, size, position)

    os.pread = pread


def _stand_still(stall_file: Path) -> None:
    """Simulate a system call that does not return while the file exists."""
    never = threading.Event()
    while stall_file.exists():
        never.wait(LOOK_S)
