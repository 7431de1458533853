"""A bug in a callback of the event loop ends the server visibly; asyncio alone would only log it."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from headrace.runtime.shell_io import TaskOwner
from headrace.storage_node.effects import WakeAt
from headrace.storage_node.shell.node_effects_io import NodeEffects
from headrace.storage_node.shell.workers_io import Workers


def broken(*_: object) -> None:
    raise ZeroDivisionError("a bug")


async def test_exception_in_a_guarded_callback_ends_its_owner() -> None:
    """`run` raises it; arguments are passed on, and a callback without an exception changes nothing."""
    tasks, seen = TaskOwner(), []
    tasks.guarded(seen.append)(1)
    assert seen == [1]
    assert tasks.failure is None
    asyncio.get_running_loop().call_soon(tasks.guarded(broken), 1)
    with pytest.raises(ZeroDivisionError):
        await tasks.run()


async def test_exception_in_the_nodes_timer_ends_the_node() -> None:
    """Otherwise parked requests would never time out, on a node that still responds."""

    class Core:
        def __init__(self) -> None:
            self.effects = [WakeAt(0)]

        def take_effects(self) -> list[WakeAt]:
            taken, self.effects = self.effects, []
            return taken

        def expire(self, now_ms: int) -> None:
            broken(now_ms)

        def endpoint_of(self, node_id: int) -> None:
            raise AssertionError(f"no request to node {node_id} is sent here")

    class Link:
        security = None

    core: Any = Core()
    link: Any = Link()
    unused: Any = None
    tasks = TaskOwner()
    effects = NodeEffects(
        core, unused, link, tasks, is_ending=lambda: False, is_closed=lambda: False, log=unused
    )
    effects.perform()
    await asyncio.wait_for(tasks.wait_stopping(), 60)
    effects.close()
    assert isinstance(tasks.failure, ZeroDivisionError)


async def test_exception_after_a_job_ends_the_node() -> None:
    """The job on the thread succeeded; handling its result failed."""
    tasks = TaskOwner()
    workers = Workers(tasks, sync_threads=1, spare_threads=1)
    workers.start(lambda: None, broken)
    await asyncio.wait_for(tasks.wait_stopping(), 60)
    await workers.finish()
    workers.close()
    assert isinstance(tasks.failure, ZeroDivisionError)


def test_servers_refuse_python_o() -> None:
    """`python -O` removes the checks of invariants; nothing is opened."""
    program = (
        "import asyncio, sys\n"
        "from headrace.storage_node.configs.node_config import NodeConfig\n"
        "from headrace.storage_node.shell.node_io import NodeServer\n"
        "asyncio.run(NodeServer(NodeConfig.of({'log.dirs': sys.argv[1]}), None).start())\n"
    )
    command = [sys.executable, "-O", "-c", program, "/nonexistent/headrace"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert "not run with python -O" in done.stderr
