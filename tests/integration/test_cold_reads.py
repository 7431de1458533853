"""Files outside of the page cache: threads read them, and later reads are served from the cache."""

import asyncio
import os
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.errors import CorruptMessageError, HeadraceError
from headrace.runtime.files.files_io import OsFile, OsFiles
from headrace.runtime.files.page_cache_io import PageCache
from headrace.storage_node.replica.cold_reads import ColdRead
from node_rig import Rig, batch, node_rig, until

CONFIG = {"log.tail.cache.bytes": 0, "fetch.read.ahead.bytes": 0}
BATCHES, SIZE = 30, 50_000


@pytest.fixture
def rig(tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
    return node_rig(tmp_path, config=CONFIG)


def evict(directory: Path) -> bool:
    """Bring all segment files to the disk and drop their pages; False if the kernel has kept a first page, as
    it does while the page is in use. Asks without a read, which would bring the page back."""
    is_evicted = True
    for path in directory.rglob("*.log"):
        number = os.open(path, os.O_RDONLY)
        os.fdatasync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        is_evicted &= not PageCache().has(number, 0, 1)
        os.close(number)
    return is_evicted


def log_file(directory: Path) -> Path:
    (path,) = directory.rglob("*.log")
    return path


def is_cached(path: Path) -> bool:
    """Whether the page cache holds the whole file; False where the kernel cannot answer. Asks without a read:
    a read that does not wait still starts the read-ahead, and can find its pages in the same call."""
    with path.open("rb") as file:
        return PageCache().has(file.fileno(), 0, path.stat().st_size)


async def cold_topic(rig: Rig, directory: Path) -> tuple[bytes, Any]:
    topic_id = await rig.topic()
    client = await rig.client()
    for number in range(BATCHES):
        await client.produce(topic_id, batch(b"%d:" % number + b"v" * SIZE))
    await until(lambda: evict(directory))
    return topic_id, client


async def held_fetch(rig: Rig, directory: Path, client: Any, topic_id: bytes) -> asyncio.Task[Any]:
    """A fetch that waits for a cold read, which `held` blocks. Repeated if another read has brought the pages
    into the cache."""
    while True:
        slow = asyncio.create_task(client.fetch(topic_id, 0, max_wait_ms=1))
        await until(lambda: rig.core.cold_reads.running == 1 or slow.done())  # noqa: B023 - used at once
        if not slow.done():
            return slow
        await until(lambda: evict(directory))


async def read_all(client: Any, topic_id: bytes) -> list[int]:
    """The number at the start of each value."""
    numbers: list[int] = []
    while len(numbers) < BATCHES:
        answer, found = await client.fetch(topic_id, len(numbers), max_wait_ms=1_000)
        assert answer.error_code == 0
        numbers += [int(value.split(b":")[0]) for _, value in found]
    return numbers


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Cold reads block on their threads until this event is set."""
    release = threading.Event()
    read = ColdRead.run

    def slowly(self: ColdRead) -> None:
        assert release.wait(60)
        read(self)

    monkeypatch.setattr(ColdRead, "run", slowly)
    return release


async def test_cold_pages_are_read_by_threads(rig: Rig, tmp_path: Path) -> None:
    """All of the log, in order; a second read of the cached pages needs no thread."""
    topic_id, client = await cold_topic(rig, tmp_path)
    assert await read_all(client, topic_id) == [*range(BATCHES)]
    if is_cached(log_file(tmp_path)):
        runs = 0
        read = ColdRead.run

        def counted(self: ColdRead) -> None:
            nonlocal runs
            runs += 1
            read(self)

        ColdRead.run = counted  # type: ignore[method-assign]
        try:
            assert await read_all(client, topic_id) == [*range(BATCHES)]
        finally:
            ColdRead.run = read  # type: ignore[method-assign]
        assert runs == 0, "cached pages need no thread"


async def test_file_system_without_nowait_is_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal happens once per file system, and no record is missing."""
    asked = 0

    def refuse(*_: object) -> int:
        nonlocal asked
        asked += 1
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)

    async with node_rig(tmp_path, config=CONFIG) as rig:
        topic_id, client = await cold_topic(rig, tmp_path)
        assert await read_all(client, topic_id) == [*range(BATCHES)]
    assert asked == 1


async def test_hanging_cold_reads_delay_no_other_requests(tmp_path: Path, held: threading.Event) -> None:
    """All threads wait for the disk: producers, tail reads and cached reads continue."""
    config = {"fetch.cold.threads": 1, "log.tail.cache.partition.bytes": 200_000}
    async with node_rig(tmp_path, config=config) as rig:
        topic_id, client = await cold_topic(rig, tmp_path)
        warm = await rig.topic("warm")
        slow = await held_fetch(rig, tmp_path, client, topic_id)
        other = await rig.client()
        await other.produce(topic_id, batch(b"new"))
        await other.produce(warm, batch(b"new"))
        assert (await other.fetch(topic_id, BATCHES))[1] == [(BATCHES, b"new")]
        assert (await other.fetch(warm, 0))[1] == [(0, b"new")]
        assert not slow.done()
        held.set()
        assert (await slow)[1][0][0] == 0


@pytest.mark.parametrize("crash", [False, True])
async def test_node_stops_during_a_cold_read(
    rig: Rig, tmp_path: Path, held: threading.Event, crash: bool
) -> None:
    """The stop waits for the thread, and the node restarts on the same disk without loss. After a crash no
    request gets a response; during a shutdown it may get one, with the right records."""
    topic_id, client = await cold_topic(rig, tmp_path)
    slow = await held_fetch(rig, tmp_path, client, topic_id)
    router = rig.node._router
    ending = asyncio.create_task(rig.restart(crash=crash))
    # not before: during its controlled shutdown the node still responds
    await until(lambda: router._is_closed or router._is_stopping)
    held.set()
    await ending
    (outcome,) = await asyncio.gather(slow, return_exceptions=True)
    if crash or isinstance(outcome, BaseException):
        assert isinstance(outcome, (HeadraceError, asyncio.CancelledError))
    else:
        answer, found = outcome
        assert answer.error_code or [offset for offset, _ in found] == [*range(len(found))]
    again = await rig.client()
    assert await read_all(again, topic_id) == [*range(BATCHES)]


async def test_topic_is_deleted_during_a_cold_read(rig: Rig, tmp_path: Path, held: threading.Event) -> None:
    """The consumer gets an error, and the node continues."""
    topic_id, client = await cold_topic(rig, tmp_path)
    slow = await held_fetch(rig, tmp_path, client, topic_id)
    rig.controller.delete_topic(topic_id)
    answer, found = await slow
    assert answer.error_code != 0
    assert not found
    held.set()
    await until(lambda: rig.core.cold_reads.running == 0)
    other = await rig.topic("other")
    assert (await client.produce(other, batch(b"x"))).error_code == 0


async def test_corrupt_batch_on_disk_is_not_served(rig: Rig, tmp_path: Path) -> None:
    """A byte was changed in the file itself."""
    topic_id, client = await cold_topic(rig, tmp_path)
    path = log_file(tmp_path)
    with path.open("r+b") as file:
        file.seek(1_000)
        file.write(b"X")
    await until(lambda: evict(tmp_path))
    try:
        answer, found = await client.fetch(topic_id, 0)
    except CorruptMessageError:
        pass  # served from the page cache, which a read-ahead has filled: the consumer checks the CRC
    else:
        assert answer.error_code == CorruptMessageError.code
        assert not found
    assert (await client.fetch(topic_id, 1))[1][0][0] == 1


def test_partly_cached_range_counts_as_not_cached(tmp_path: Path) -> None:
    """No read returns part of a range. (The kernel decides how much of a file is cached.)"""
    files = OsFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    assert isinstance(file, OsFile)
    file.pwrite(0, [bytes(10)])
    assert file.pread_cached(0, 20) is None
    assert file.pread_cached(0, 10) == bytes(10)
