"""No background task fails in silence, and none outlives its owner."""

import asyncio

import pytest
from headrace.runtime.shell_io import TaskOwner


async def forever(log: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        log.append("ended")


async def failing(error: BaseException) -> None:
    raise error


async def test_failed_task_ends_run_with_its_error() -> None:
    """The other task is ended first."""
    log: list[str] = []

    owner = TaskOwner()
    owner.spawn(forever(log), "forever")
    owner.spawn(failing(OSError("disk")), "failing")
    with pytest.raises(OSError, match="disk"):
        await owner.run()
    assert log == ["ended"]
    assert isinstance(owner.failure, OSError)


async def test_failure_before_run_is_raised() -> None:
    """The owner was still starting."""
    owner = TaskOwner()
    task = owner.spawn(failing(ValueError("early")), "early")
    await asyncio.wait([task])
    with pytest.raises(ValueError, match="early"):
        await asyncio.wait_for(owner.run(), 60)


async def test_stop_ends_all_tasks_and_returns() -> None:
    log: list[str] = []

    owner = TaskOwner()
    tasks = [owner.spawn(forever(log), "forever") for _ in range(3)]
    running = asyncio.create_task(owner.run())
    await asyncio.sleep(0)
    owner.stop()
    await running
    assert all(task.done() for task in tasks)
    assert log == ["ended"] * 3


async def test_task_that_returns_ends_no_other_task() -> None:
    owner = TaskOwner()
    await asyncio.wait([owner.spawn(asyncio.sleep(0), "short")])
    assert owner.failure is None
    assert not owner.is_stopping


async def test_fail_ends_run() -> None:
    """For a failure in a callback instead of a task."""
    owner = TaskOwner()
    asyncio.get_running_loop().call_soon(owner.fail, RuntimeError("callback"))
    with pytest.raises(RuntimeError, match="callback"):
        await owner.run()


async def test_several_failures_are_grouped() -> None:
    """A second task fails while it is being ended."""

    async def bad_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("second")

    owner = TaskOwner()
    owner.spawn(bad_end(), "bad end")
    await asyncio.sleep(0)
    owner.spawn(failing(OSError("first")), "failing")
    with pytest.raises(BaseExceptionGroup) as caught:
        await owner.run()
    assert [type(error) for error in caught.value.exceptions] == [OSError, KeyError]


async def test_tasks_are_refused_after_stop() -> None:
    """A task without an owner would be lost; its coroutine is closed."""
    owner = TaskOwner()
    owner.stop()
    await owner.run()
    with pytest.raises(RuntimeError, match="late"):
        owner.spawn(asyncio.sleep(1), "late")


async def test_cancelled_run_ends_the_tasks() -> None:
    log: list[str] = []

    owner = TaskOwner()
    owner.spawn(forever(log), "forever")
    running = asyncio.create_task(owner.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log == ["ended"]


async def test_every_repeats_until_it_fails() -> None:
    """A plain and an awaitable action; the failure ends run."""
    calls: list[int] = []

    async def nothing() -> None:
        return None

    def action() -> object:
        calls.append(1)
        if len(calls) == 3:
            raise LookupError("third")
        return nothing() if len(calls) == 2 else None

    owner = TaskOwner()
    owner.every(0, action, "periodic")  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="third"):
        await owner.run()
    assert len(calls) == 3


async def test_work_runs_until_the_owner_stops() -> None:
    """It ends by itself, with its error, or is cancelled when the owner stops or a task fails."""
    log: list[str] = []

    owner = TaskOwner()
    await owner.unless_stopping(asyncio.sleep(0))
    with pytest.raises(LookupError, match="own"):
        await owner.unless_stopping(failing(LookupError("own")))
    waiting = asyncio.create_task(owner.unless_stopping(forever(log)))
    await asyncio.sleep(0)
    owner.fail(LookupError("another"))
    await waiting
    assert log == ["ended"]
    assert isinstance(owner.failure, LookupError)
