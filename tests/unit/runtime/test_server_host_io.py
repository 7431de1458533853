"""The host of one server: its end is the end of the process, unless it was asked to stop."""

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest
from headrace.protocol.errors import ApiTimeoutError, KafkaStorageError
from headrace.runtime.server_host_io import SWITCH_INTERVAL_S, ServerHost, settle_process

WAIT_S = 60.0


class FakeServer:
    """A server whose start, run and stop the test controls."""

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


def test_server_starts_reports_status_and_stops() -> None:
    """The endpoint is known once ready; a requested stop does not end the process."""
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


def test_restart_stops_cleanly_and_ends_the_process_behind_the_call() -> None:
    """With a code after which the supervisor starts it again."""
    server, ends = FakeServer(), Ends()
    host = ServerHost("node-1", lambda: server, ends)
    host.wait_ready(WAIT_S)
    host.restart(WAIT_S)
    assert server.was_stopped
    assert ends.happened.wait(WAIT_S)
    assert ends.codes == [1]


def test_on_ready_runs_once_before_the_endpoint_is_known() -> None:
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


def test_failed_start_raises_and_ends_the_process() -> None:
    """Callers that wait get the reason; Ray restarts the process."""
    ends = Ends()
    host = ServerHost("node-1", lambda: FakeServer(KafkaStorageError("disk gone")), ends, linger_s=0.0)
    with pytest.raises(KafkaStorageError, match="disk gone"):
        host.wait_ready(WAIT_S)
    assert ends.happened.wait(WAIT_S)
    assert ends.codes == [1]
    assert host.endpoint is None
    assert host.status()["state"] == "failed"


@pytest.mark.parametrize("error", [RuntimeError("a task died"), None], ids=["failure", "return"])
def test_unexpected_end_of_the_server_ends_the_process(error: Exception | None) -> None:
    """It failed or returned: no process that still responds may be left."""
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


def test_slow_start_raises_a_timeout() -> None:
    """The endpoint stays unknown."""
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


def test_server_with_a_low_priority_logs_a_warning() -> None:
    """Ray starts its workers with niceness 15 unless its environment says otherwise."""
    lines = "import logging, os; from headrace.runtime.server_host_io import settle_process"
    program = f"{lines}; logging.basicConfig(); os.nice(3); settle_process()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "WARNING:headrace.host:this server runs with niceness" in done.stderr
    assert "set RAY_worker_niceness=0 in the environment of `ray start`" in done.stderr
