"""One headrace server in its own process: `server_process controller|node DIR PORTS PROFILE KEY=VALUE...`.

PORTS of a node: those of the controllers, comma-separated. Prints "ready PORT" when it serves; SIGTERM stops
it. With a file PROFILE, SIGUSR1 starts a sampling profiler, and SIGUSR2 stops it and writes the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from headrace.benchmarks.sampler_io import Sampler
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.coordinators.assembly import new_coordinators
from headrace.runtime.loop_io import new_event_loop
from headrace.runtime.server_host_io import settle_process
from headrace.services.kafka_listener.assembly import new_kafka_listener
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.links.controller_link_io import fixed_locator
from headrace.storage_node.shell.node_io import NodeServer


def make_server(kind: str, directory: str, ports: str, pairs: list[str]) -> ControllerServer | NodeServer:
    """A server with default settings but for `pairs`."""
    more = dict(pair.split("=", 1) for pair in pairs)
    if kind == "controller":
        return ControllerServer(ControllerConfig.of({"metadata.log.dir": directory, **more}))
    config = NodeConfig.of({"node.id": 1, "log.dirs": directory, **more})
    locators = tuple(fixed_locator("127.0.0.1", int(port)) for port in ports.split(","))
    return NodeServer(config, locators, coordinators=new_coordinators, gateway=new_kafka_listener)


def add_profiler(loop: asyncio.AbstractEventLoop, path: str) -> None:
    """Profile from SIGUSR1 to SIGUSR2."""
    samplers: list[Sampler] = []

    def begin() -> None:
        samplers.append(Sampler(is_by_signal=True))
        samplers[-1].start()

    def end() -> None:
        if samplers:
            sampler = samplers.pop()
            sampler.stop()
            sampler.write(path)

    loop.add_signal_handler(signal.SIGUSR1, begin)
    loop.add_signal_handler(signal.SIGUSR2, end)


async def main(kind: str, directory: str, ports: str, profile: str, *pairs: str) -> None:
    """Serve until SIGTERM."""
    server = make_server(kind, directory, ports, list(pairs))
    await server.start()
    settle_process()  # as the Ray actors do
    running = asyncio.create_task(server.run())
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    if profile:
        add_profiler(loop, profile)
    running.add_done_callback(lambda _: terminated.set())
    print(f"ready {server.port}", flush=True)
    await terminated.wait()
    with contextlib.suppress(Exception) if running.done() else contextlib.nullcontext():
        await server.stop()
    await running


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
