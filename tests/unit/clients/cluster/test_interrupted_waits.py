"""Waits that end early: by a close in another thread, or by their deadline during an outage."""

import asyncio
import contextlib
import threading
from random import Random
from typing import Any

from headrace.clients.cluster.cluster_io import ClusterIo
from headrace.clients.cluster.metadata_io import MetadataService
from headrace.clients.cluster.tasks_io import Tasks
from headrace.protocol.errors import ApiTimeoutError, ClosedError, NetworkError


def test_close_in_another_thread_ends_a_call_with_closed_error() -> None:
    """The call does not raise a cancellation."""
    io = ClusterIo("127.0.0.1:1", {})
    seen: list[BaseException] = []
    started = threading.Event()

    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    def work() -> None:
        try:
            io.call(forever())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(60)
    io.close()
    thread.join(60)
    assert isinstance(seen[0], ClosedError), repr(seen[0])


class AwayNetwork:
    """Every request fails after 20 ms."""

    async def request(self, *_args: Any, **_facts: Any) -> None:
        await asyncio.sleep(0.02)
        raise NetworkError("no")


async def test_timed_out_refreshes_leave_nothing_behind() -> None:
    """200 refreshes time out while all attempts fail."""
    tasks = Tasks(lambda _error: None)
    loop = asyncio.get_running_loop()

    def now_ms() -> int:
        return int(loop.time() * 1000)

    network: Any = AwayNetwork()
    service: Any = MetadataService(
        network, "127.0.0.1:1", max_age_ms=10_000, now_ms=now_ms, random=Random(1), tasks=tasks
    )
    service.start()
    for _ in range(200):
        with contextlib.suppress(ApiTimeoutError):
            await service.refresh(now_ms() + 5)
    await asyncio.sleep(0.1)
    count = len(service._waiters)
    service.close(ClosedError("end"))
    await tasks.close()
    assert count <= 1
