"""A client process: `worker '{"loop": ..., ...}'` prints "ready", waits for a line, prints a JSON report.

With "profile" in its order it samples its stacks while the clock runs, and writes a table to that file.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from typing import Any

from .machine_io import cpu_seconds
from .sampler_io import Sampler

LOOPS = {
    "produce": "produce",
    "consume": "consume",
    "verify": "consume",
    "reread": "consume",
    "openloop": "latency",
    "follow": "latency",
    "ping": "latency",
    "window": "latency",
    "transact": "transactions",
    "committed": "transactions",
    "commits": "commits",
    "members": "members",
    "failover": "failover",
    "upkeep": "upkeep",
    "idle": "connections",
    "churn": "connections",
    "raw": "raw",
    "bareclient": "bare",
    "pagecache": "bare",
    "crc": "bare",
    "makelog": "cleaning",
    "clean": "cleaning",
    "codec": "cleaning",
    "authorize": "authorization",
}


class Clock:
    """Times a loop: `ready`, `start`, `stop`; reads the CPU time of the servers at start and stop."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._servers = spec.get("server_pids", ())
        self._sampler = Sampler() if spec.get("profile") else None
        self._profile = spec.get("profile")
        self._began: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def ready(self) -> None:
        """Print "ready" and wait for the harness."""
        print("ready", flush=True)
        if not sys.stdin.readline():
            raise SystemExit("the harness has ended")

    def start(self) -> None:
        """Start the timed part."""
        if self._sampler is not None:
            self._sampler.start()
        self._began = (self._server_s(), time.process_time(), time.perf_counter())

    def stop(self) -> dict[str, float]:
        """End the timed part: seconds, and CPU seconds of servers and client."""
        seconds = time.perf_counter() - self._began[2]
        client_s = time.process_time() - self._began[1]
        server_s = self._server_s() - self._began[0]
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler.write(str(self._profile))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"seconds": seconds, "client_cpu_s": client_s, "server_cpu_s": server_s, "client_peak": peak}

    def _server_s(self) -> float:
        return sum(map(cpu_seconds, self._servers))


def main() -> None:
    """Run one loop."""
    spec = json.loads(sys.argv[1])
    loop = spec["loop"]
    module = importlib.import_module(f"headrace.benchmarks.loops.{LOOPS[loop]}")
    report = getattr(module, loop)(spec, Clock(spec))
    print(json.dumps(report), flush=True)
    # without a clean exit: client libraries with full queues may need seconds to close
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
