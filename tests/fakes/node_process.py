"""A storage node in its own process, to be killed: `node_process.py DIRECTORY CONTROLLER_PORTS KEY=VALUE...`.

The ports of several controllers are separated by commas. Prints "ready PORT" once it serves; SIGTERM stops
it cleanly; HEADRACE_LOG=INFO sets the level of its log on stderr.
"""

import asyncio
import sys

from headrace.coordinators.assembly import new_coordinators
from headrace.runtime.loop_io import new_event_loop
from headrace.services.kafka_listener.assembly import new_kafka_listener
from headrace.services.telemetry.assembly import new_telemetry
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.links.controller_link_io import fixed_locator
from headrace.storage_node.shell.node_io import NodeServer
from process_log import log_as_asked, serve


async def main(directory: str, controller_ports: str, more: list[str]) -> None:
    values = dict(pair.split("=", 1) for pair in more)
    config = NodeConfig.of({"node.id": 1, "log.dirs": directory, **values})
    locators = tuple(fixed_locator("127.0.0.1", int(port)) for port in controller_ports.split(","))
    parts = {"coordinators": new_coordinators, "gateway": new_kafka_listener, "telemetry": new_telemetry}
    node = NodeServer(config, locators, **parts)
    await serve(node)


if __name__ == "__main__":
    log_as_asked()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
