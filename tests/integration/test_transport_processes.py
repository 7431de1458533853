"""The transport between processes: killed, stopped, forked, and left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import NetworkError
from headrace.protocol.messages.registry import METADATA
from headrace.protocol.transport.dealer_io import Connection, ConnectionOptions
from headrace.protocol.transport.router_io import RouterLimits
from multipart_twins import TWINS, sockets_use
from transport_kit import ASK, METADATA_BODY, PATIENCE_S, serving, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., tuple[subprocess.Popen[str], int]]

FAKES = Path(__file__).parents[1] / "fakes"


@pytest.fixture(params=TWINS, autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both twins, in all processes of a test."""
    with sockets_use(request.param):
        yield


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Starts python processes that print one number, and ends those that are left."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*command: str) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(FAKES)},
        )
        processes.append(process)
        assert process.stdout is not None
        return process, int(process.stdout.readline())

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def test_killed_server_fails_requests_at_once(start: Start) -> None:
    """Ten requests are in flight: all fail long before any timeout."""
    process, port = start(str(FAKES / "transport_server.py"), "hold")

    client = await Connection.open("127.0.0.1", port, client_id="c", timeout_s=PATIENCE_S)
    futures = [client.send(METADATA, ASK) for _ in range(10)]
    closed = asyncio.get_running_loop().create_future()
    client.on_close = lambda: closed.set_result(True)
    process.send_signal(signal.SIGKILL)
    await asyncio.wait_for(closed, PATIENCE_S)
    for future in futures:
        assert isinstance(future.exception(), NetworkError)
    with pytest.raises(NetworkError):
        await Connection.open("127.0.0.1", port, client_id="c", timeout_s=PATIENCE_S)


async def test_stopped_server_is_detected_by_heartbeat(start: Start) -> None:
    """SIGSTOP: TCP stays open; the heartbeat's timeout ends the connection and the request."""
    process, port = start(str(FAKES / "transport_server.py"), "hold")

    options = ConnectionOptions(heartbeat_interval_ms=50, heartbeat_timeout_ms=200)
    client = await Connection.open("127.0.0.1", port, client_id="c", timeout_s=PATIENCE_S, options=options)
    future = client.send(METADATA, ASK)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(NetworkError):
        await future
    assert client.is_closed


CLIENT = textwrap.dedent(
    """
    import sys
    from transport_kit import *

    async def main():
        client = await Connection.open("127.0.0.1", int(sys.argv[1]), client_id="other", timeout_s=60)
        print(0, flush=True)
        await asyncio.Event().wait()

    run_for_ever(main())
    """
)


async def test_stopped_client_is_detected_by_heartbeat(start: Start) -> None:
    """Its state is freed after the timeout; other clients are served."""
    limits = RouterLimits(heartbeat_interval_ms=50, heartbeat_timeout_ms=200)
    async with serving(limits) as served:
        starting = asyncio.to_thread(start, "-c", CLIENT, str(served.router.port))
        process, _ = await starting
        process.send_signal(signal.SIGSTOP)
        await until(lambda: served.gone == ["other"])
        await served.is_well()


FORK = textwrap.dedent(
    """
    import os, sys
    from transport_kit import *

    PORT = int(sys.argv[1])

    async def ask(client):
        answer = await client.request(METADATA, ASK, timeout_s=60)
        assert answer.body == METADATA_BODY

    async def in_child():
        client = await Connection.open("127.0.0.1", PORT, client_id="child", timeout_s=60)
        await ask(client)
        client.close()

    async def in_parent():
        client = await Connection.open("127.0.0.1", PORT, client_id="parent", timeout_s=60)
        await ask(client)
        loop = asyncio.get_running_loop()
        child = os.fork()
        if child == 0:
            asyncio._set_running_loop(None)
            try:
                run_for_ever(in_child())
            except BaseException:
                import traceback; traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        await ask(client)
        client.close()
        print(os.waitstatus_to_exitcode(status), flush=True)

    asyncio.run(in_parent())
    """
)


def test_forked_child_uses_its_own_context(start: Start) -> None:
    """The parent has an open connection: the child opens its own, and both are served."""
    _, port = start(str(FAKES / "transport_server.py"))
    process, status = start("-c", FORK, str(port))
    assert status == 0
    assert process.wait(PATIENCE_S) == 0


LEAVER = textwrap.dedent(
    """
    import sys
    from transport_kit import *

    async def main():
        client = await Connection.open("127.0.0.1", int(sys.argv[1]), client_id="leaver", timeout_s=60)
        for _ in range(50):
            client.send(METADATA, ASK, (bytes(1_000_000),))
        print(0, flush=True)

    run_for_ever(main())
    """
)


async def test_process_ends_without_closing_its_connection(start: Start) -> None:
    """Megabytes are in flight to a stopped server: the process ends all the same."""
    server, port = start(str(FAKES / "transport_server.py"), "hold")

    client = await Connection.open("127.0.0.1", port, client_id="c", timeout_s=PATIENCE_S)
    assert client.hello.cluster_id == METADATA_BODY.cluster_id
    client.close()
    process, _ = start("-c", LEAVER, str(port))
    server.send_signal(signal.SIGSTOP)
    assert process.wait(PATIENCE_S) == 0
