"""A controller in its own process, to be killed: `controller_process.py DIRECTORY KEY=VALUE...`.

Prints "ready PORT" once it serves; SIGTERM stops it cleanly; HEADRACE_LOG=INFO sets the level of its log on
stderr.
"""

import asyncio
import sys

from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.runtime.loop_io import new_event_loop
from headrace.services.telemetry.assembly import new_telemetry
from process_log import log_as_asked, serve


async def main(directory: str, more: list[str]) -> None:
    values = dict(pair.split("=", 1) for pair in more)
    config = ControllerConfig.of({"metadata.log.dir": directory, **values})
    controller = ControllerServer(config, telemetry=new_telemetry)
    await serve(controller)


if __name__ == "__main__":
    log_as_asked()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2:]))
