"""The hub that the clients of one cluster share, and its end."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import ClosedError, HeadraceError, NetworkError
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.messages.registry import METADATA


class Engine:
    """Remembers why it ended."""

    def __init__(self) -> None:
        self.reasons: list[HeadraceError] = []

    def fail(self, reason: HeadraceError) -> None:
        self.reasons.append(reason)


async def test_failed_task_fails_every_engine() -> None:
    """`fail` is called once, later engines are rejected, closing is still possible."""
    fake = FakeCluster()
    hub = fake.make_hub("node0:9000", ConnectionConfig())
    first, left = Engine(), Engine()
    hub.join(first)
    hub.join(left)
    hub.leave(left)

    async def bug() -> None:
        raise ValueError("bug")

    hub.tasks.spawn(bug())
    await asyncio.sleep(0.1)
    assert len(first.reasons) == 1
    assert isinstance(first.reasons[0].__cause__, ValueError)
    with pytest.raises(ClosedError, match="bug"):
        hub.join(Engine())
    await hub.close()
    assert len(first.reasons) == 1
    assert left.reasons == []


async def test_submit_to_an_unknown_node_and_a_failing_callback() -> None:
    """The error comes by the callback, not from inside `submit`; a bug in the callback ends every client."""
    fake = FakeCluster()
    hub = fake.make_hub("node0:9000", ConnectionConfig())
    engine, received = Engine(), []
    hub.join(engine)
    hub.submit(
        99, METADATA, MetadataRequest(()), timeout_ms=1000, on_done=lambda *result: received.append(result)
    )
    assert received == []
    await asyncio.sleep(0.1)
    [(reply, error)] = received
    assert reply is None
    assert isinstance(error, NetworkError)
    assert "node 99 left" in str(error)
    hub.submit(99, METADATA, MetadataRequest(()), timeout_ms=1000, on_done=lambda *_: 1 / 0)
    await asyncio.sleep(0.1)
    assert isinstance(engine.reasons[0].__cause__, ZeroDivisionError)
    await hub.close()


async def test_callbacks_are_not_called_after_the_end() -> None:
    """The connection breaks because the hub closes: its engines have failed already."""
    fake = FakeCluster()
    hub = fake.make_hub("node0:9000", ConnectionConfig())
    await hub.metadata.refresh(hub.now_ms() + 1000)
    held: list[Any] = []
    received: list[object] = []

    def hold(*_args: Any, on_done: Any, **_facts: Any) -> Any:
        held.append(on_done)
        return lambda: None

    hub.network.submit = hold  # type: ignore[method-assign]
    for _ in range(2):
        hub.submit(
            0, METADATA, MetadataRequest(()), timeout_ms=1, on_done=lambda *result: received.append(result)
        )
    held[0](None, NetworkError("gone"))
    assert len(received) == 1
    await hub.close()
    held[1](None, NetworkError("gone"))
    assert len(received) == 1


class Frame(bytearray):
    """A frame with weak references."""


async def test_frames_are_free_once_their_request_has_its_outcome() -> None:
    """At once, not at the next garbage collection: a producer would keep megabytes of sent batches."""
    fake = FakeCluster()
    hub = fake.make_hub("node0:9000", ConnectionConfig())
    await hub.metadata.refresh(hub.now_ms() + 1000)
    outcomes: list[Any] = []

    def send(*_args: Any, on_done: Any, **_facts: Any) -> Any:
        outcomes.append(on_done)
        return lambda: None

    hub.network.submit = send  # type: ignore[method-assign]
    frame = Frame(b"batch")
    left = weakref.ref(frame)
    gc.disable()
    try:

        def done(_reply: Any, _error: Any, batch: Frame = frame) -> None:
            assert batch == b"batch"

        hub.submit(0, METADATA, MetadataRequest(()), (frame,), timeout_ms=1, on_done=done)
        del frame, done
        assert left() is not None
        outcomes.pop()(None, NetworkError("gone"))
        assert left() is None
    finally:
        gc.enable()
    await hub.close()
