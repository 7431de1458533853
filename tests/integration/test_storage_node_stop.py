"""Stopping a node in the middle of its own chores."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from node_rig import batch, node_rig, run

if TYPE_CHECKING:
    from pathlib import Path


class HeldTask:
    """A checkpoint that waits until it is let go."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def run(self) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        self._inner.run()


def test_a_stop_during_a_checkpoint_is_clean(tmp_path: Path) -> None:
    """The checkpoint ends while the shutdown has begun: no flush starts under it, the marker is written."""

    async def scenario() -> None:
        async with node_rig(tmp_path) as rig:
            node: Any = rig.node
            topic_id = await rig.topic("t")
            client = await rig.client()
            await client.produce(topic_id, batch(b"a"))
            make_tasks = node._manager.checkpoint_tasks
            held = HeldTask(make_tasks()[0])
            node._manager.checkpoint_tasks = lambda **_: [held]
            checkpoint = asyncio.create_task(node._checkpoints.write_all())
            await asyncio.to_thread(held.has_begun.wait, 30)
            node._manager.checkpoint_tasks = make_tasks
            stop = asyncio.create_task(node.stop())
            await node._link.has_left.wait()  # the farewell is said, the shutdown has begun
            held.may_go_on.set()
            await stop
            await asyncio.gather(checkpoint, return_exceptions=True)
            assert node._tasks.failure is None

    run(scenario)
    assert list(tmp_path.rglob(".kafka_cleanshutdown"))
