"""Background tasks with an owner."""

import asyncio

from headrace.clients.cluster.tasks_io import Tasks


async def test_failed_tasks_are_reported_cancelled_ones_are_not() -> None:
    """One task fails, one is cancelled by `close`, one succeeds; after `close` no task starts."""
    failures: list[BaseException] = []
    tasks = Tasks(failures.append)

    async def fail() -> None:
        raise ValueError("bug")

    ended: list[str] = []

    async def sleep() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("sleep")

    tasks.spawn(fail())
    tasks.spawn(asyncio.sleep(0))
    tasks.spawn(sleep())
    await asyncio.sleep(1)
    assert [str(failure) for failure in failures] == ["bug"]
    await tasks.close()
    assert ended == ["sleep"]
    assert len(failures) == 1
    assert tasks.spawn(asyncio.sleep(0)) is None
