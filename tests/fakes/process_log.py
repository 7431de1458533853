"""What the servers in processes of their own have in common: how they serve, and what they tell on stderr."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

VARIABLE = "HEADRACE_LOG"


def log_as_asked() -> None:
    """At the level that HEADRACE_LOG names; without it as Python does by default."""
    level = os.environ.get(VARIABLE)
    if level:
        logging.basicConfig(level=level, format="%(asctime)s %(name)s %(levelname)s %(message)s")


async def serve(server: Any) -> None:
    """Start a node or a controller, print "ready PORT", and serve until SIGTERM or its own end."""
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
