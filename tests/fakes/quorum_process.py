"""A controller in its own process, to be killed: `quorum_process.py ID FOLDER PORT OTHERS KEY=VALUE...`.

OTHERS are host:port of all controllers. Prints "ready BLANK DESCRIPTION" once it serves, then reads commands
on standard input: "begin DESCRIPTIONS" formats the quorum. SIGTERM stops it cleanly.
"""

import asyncio
import signal
import sys

import msgspec
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol.records.control import VoterDescription
from headrace.runtime.loop_io import new_event_loop


async def main(node: str, directory: str, port: str, others: str, more: list[str]) -> None:
    values = dict(pair.split("=", 1) for pair in more)
    facts = {"controller.id": node, "metadata.log.dir": directory, "listener.port": port}
    servers = {"controller.quorum.bootstrap.servers": others}
    server = ControllerServer(ControllerConfig.of({**facts, **servers, **values}))
    await server.start()
    running = asyncio.create_task(server.run())
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    running.add_done_callback(lambda _: terminated.set())

    def on_order() -> None:
        verb, _, text = sys.stdin.readline().partition(" ")
        if verb == "begin":
            server.begin(msgspec.json.decode(text, type=list[VoterDescription]))
        else:
            loop.remove_reader(sys.stdin)

    loop.add_reader(sys.stdin, on_order)
    description = msgspec.json.encode(server.describe_voter()).decode()
    sys.stdout.write(f"ready {server.is_blank} {description}\n")
    sys.stdout.flush()
    await terminated.wait()
    await server.stop()
    await running


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(*sys.argv[1:5], sys.argv[5:]))
