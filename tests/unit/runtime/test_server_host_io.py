"""The host of one server: its end is the end of the process, unless it was asked to stop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

import pytest
from headrace.protocol.errors import ApiTimeoutError, KafkaStorageError
from headrace.runtime.server_host_io import SWITCH_INTERVAL_S, ServerHost, settle_process

WAIT_S = 60.0


class FakeServer:
    """Starts, runs and stops as it is told."""

    host, port = "127.0.0.1", 9092

    def __init__(self, start_error: Exception | None = None) -> None:
        self.start_error = start_error
        self.outcome: asyncio.Future[None] | None = None
        self.was_stopped = False

    async def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error

    async def run(self) -> None:
        self.outcome = asyncio.get_running_loop().create_future()
        await self.outcome

    async def stop(self) -> None:
        self.was_stopped = True
        assert self.outcome is not None
        self.outcome.set_result(None)

    def status(self) -> dict[str, Any]:
        return {"node_id": 7}


class Ends:
    """Records what would have ended the process."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.happened = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.happened.set()


def test_ready_then_status_then_a_clean_stop() -> None:
    """The whole life: the endpoint is known once ready, and a stop that was asked for ends nothing else."""
    server, ends = FakeServer(), Ends()
    host = ServerHost("node-1", lambda: server, ends)
    host.wait_ready(WAIT_S)
    assert host.endpoint == ("127.0.0.1", 9092)
    status = host.status()
    assert (status["state"], status["node_id"], status["name"]) == ("running", 7, "node-1")
    host.stop(WAIT_S)
    assert server.was_stopped
    assert host.status()["state"] == "stopped"
    assert ends.codes == []
    host.stop(WAIT_S)  # again: nothing to do


def test_a_process_of_its_own_is_settled_before_anybody_hears_that_it_is_ready() -> None:
    """`on_ready` runs once, after the start; and what it does in an actor."""
    server, seen = FakeServer(), []
    host = ServerHost("node-1", lambda: server, Ends(), on_ready=lambda: seen.append("settled"))
    host.wait_ready(WAIT_S)
    assert seen == ["settled"]
    host.stop(WAIT_S)
    interval, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    try:
        settle_process()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert gc.get_freeze_count() > frozen
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()


def test_a_failed_start_is_heard_and_ends_the_process() -> None:
    """Whoever waits hears the reason itself; then the process ends so that it is started again."""
    ends = Ends()
    host = ServerHost("node-1", lambda: FakeServer(KafkaStorageError("disk gone")), ends, linger_s=0.0)
    with pytest.raises(KafkaStorageError, match="disk gone"):
        host.wait_ready(WAIT_S)
    assert ends.happened.wait(WAIT_S)
    assert ends.codes == [1]
    assert host.endpoint is None
    assert host.status()["state"] == "failed"


@pytest.mark.parametrize("error", [RuntimeError("a task died"), None], ids=["failure", "return"])
def test_an_unplanned_end_ends_the_process(error: Exception | None) -> None:
    """A server that fails, or just returns, must not leave a process that still answers."""
    server, ends = FakeServer(), Ends()
    host = ServerHost("node-1", lambda: server, ends, linger_s=0.0)
    host.wait_ready(WAIT_S)
    assert host.status()["state"] == "running"  # so `run` has begun

    def end() -> None:
        assert server.outcome is not None
        if error is None:
            server.outcome.set_result(None)
        else:
            server.outcome.set_exception(error)

    host._thread.wake(end)
    assert ends.happened.wait(WAIT_S)
    assert ends.codes == [1]


def test_a_slow_start_is_an_error_of_its_own() -> None:
    """Not ready in time says so, and the endpoint stays unknown."""
    release = threading.Event()

    class SlowServer(FakeServer):
        async def start(self) -> None:
            await asyncio.to_thread(release.wait, WAIT_S)

    host = ServerHost("node-1", SlowServer, Ends())
    with pytest.raises(ApiTimeoutError, match="node-1"):
        host.wait_ready(0.01)
    assert host.endpoint is None
    assert host.status()["state"] == "starting"
    release.set()
    host.wait_ready(WAIT_S)
    host.stop(WAIT_S)
