"""Stops of a node during its background work."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from node_rig import Rig, batch, node_rig, until


class HeldTask:
    """A checkpoint that blocks until it is released."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def run(self) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        self._inner.run()


async def test_stop_during_a_checkpoint_is_clean(tmp_path: Path) -> None:
    """The checkpoint ends after the shutdown has begun: no flush is started."""
    async with node_rig(tmp_path) as rig:
        node: Any = rig.node
        topic_id = await rig.topic("t")
        client = await rig.client()
        await client.produce(topic_id, batch(b"a"))
        make_tasks = node._manager.checkpoints.tasks
        held = HeldTask(make_tasks()[0])
        node._manager.checkpoints.tasks = lambda **_: [held]
        checkpoint = asyncio.create_task(node._effects.checkpoints.write_all())
        await asyncio.to_thread(held.has_begun.wait, 30)
        node._manager.checkpoints.tasks = make_tasks
        stop = asyncio.create_task(node.stop())
        await node._link.may_stop.wait()  # the controlled shutdown is answered, the shutdown has begun
        held.may_go_on.set()
        await stop
        await asyncio.gather(checkpoint, return_exceptions=True)
        assert node._tasks.failure is None
    assert list(tmp_path.rglob(".kafka_cleanshutdown"))


@pytest.mark.parametrize("crash", [False, True])
async def test_node_ends_during_a_recompression(rig: Rig, crash: bool) -> None:
    """Batches wait for it: the log is a prefix of the sent batches, in order."""
    values = [b"%06d" % number * 20_000 for number in range(40)]

    topic_id = await rig.topic("t", compression_type="gzip")
    client = await rig.client()
    sent = [asyncio.create_task(client.produce(topic_id, batch(value))) for value in values]
    await until(lambda: len(rig.core.recompressor) > 0)
    await rig.restart(crash=crash)
    answers = await asyncio.gather(*sent, return_exceptions=True)
    offsets = [each.base_offset for each in answers if not isinstance(each, BaseException)]
    again = await rig.client()
    assert (await again.produce(topic_id, batch(b"last"))).error_code == 0
    found: list[bytes | None] = []
    while found[-1:] != [b"last"]:
        found += [value for _, value in (await again.fetch(topic_id, len(found)))[1]]
    assert found[:-1] == values[: len(found) - 1]
    assert all(offset < len(found) - 1 for offset in offsets if offset >= 0)
