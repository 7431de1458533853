"""Workers: jobs on threads, results on the loop."""

import asyncio
import threading

import pytest
from headrace.protocol.errors import KafkaStorageError
from headrace.runtime.shell_io import TaskOwner
from headrace.storage_node.shell.workers_io import Workers


def workers(tasks: TaskOwner | None = None, *, sync: int = 1, spare: int = 1) -> Workers:
    return Workers(tasks or TaskOwner(), sync_threads=sync, spare_threads=spare)


def fail_with(error: Exception) -> None:
    raise error


async def test_results_are_reported_on_the_loop() -> None:
    """The work runs on a thread; a disk error is a result."""
    pool = workers()
    seen: list[object] = []
    here = threading.get_ident()
    pool.start(lambda: seen.append(threading.get_ident()), lambda e: seen.append(threading.get_ident()))
    await pool.finish()
    assert seen[0] != here
    assert seen[1] == here
    error = KafkaStorageError("EIO")
    pool.start(lambda: fail_with(error), seen.append)
    await pool.finish()
    assert seen[2] is error
    pool.close()


async def test_a_bug_in_a_job_ends_the_node() -> None:
    """Any exception that is not a disk error."""
    tasks = TaskOwner()
    pool = workers(tasks)
    pool.start(lambda: fail_with(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError, match="bug"):
        await tasks.run()
    pool.close()


async def test_awaited_jobs_do_not_queue_behind_others() -> None:
    """The spare thread is busy with a long deletion: a flush that producers wait for runs all the same."""
    pool = workers()
    release = threading.Event()
    synced = asyncio.Event()
    pool.start(lambda: release.wait(60) or None)
    pool.start(lambda: None, lambda _error: synced.set(), is_awaited=True)
    await synced.wait()
    release.set()
    await pool.finish()
    pool.close()


async def test_a_closed_workers_reports_nothing() -> None:
    """A job that ends late must not touch the node."""
    pool = workers()
    release = threading.Event()
    ends: list[object] = []
    pool.start(lambda: release.wait(60) or None, ends.append)
    pool.close()
    release.set()
    await pool.finish()
    assert ends == []


async def test_run_returns_the_result_or_raises() -> None:
    """For work at start and stop."""
    pool = workers()
    assert await pool.run(lambda: 7) == 7
    with pytest.raises(KafkaStorageError):
        await pool.run(lambda: fail_with(KafkaStorageError("EIO")))
    pool.close()


async def test_removals_delay_no_other_work() -> None:
    """Lookups, flushes and other jobs run beside a removal that does not end."""
    pool = workers()
    may_end = threading.Event()
    done: list[str] = []
    pool.purge(lambda: done.append("purged") if may_end.wait(60) else None)
    await pool.run(lambda: None)
    searched = asyncio.Event()
    pool.look_up(lambda: done.append("searched"), lambda _: searched.set())
    await searched.wait()
    synced = asyncio.Event()
    pool.start(lambda: done.append("synced"), lambda _: synced.set(), is_awaited=True)
    await synced.wait()
    assert done == ["searched", "synced"]
    may_end.set()
    await pool.finish()
    assert done[-1] == "purged"
    pool.close()


async def test_resizing_loses_no_job() -> None:
    """Jobs behind a busy thread are still run, and later jobs do not wait for it."""
    pool, gate, later = workers(), threading.Event(), threading.Event()
    done: list[object] = []
    pool.start(gate.wait, done.append, is_awaited=True)
    pool.start(lambda: None, done.append, is_awaited=True)
    pool.resize(2)
    pool.start(later.set, is_awaited=True)
    await asyncio.to_thread(later.wait, 20)
    assert later.is_set()
    assert not done
    gate.set()
    await pool.finish()
    assert done == [None, None]
    pool.close()
