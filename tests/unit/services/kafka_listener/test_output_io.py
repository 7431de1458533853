"""The output of a connection: order, flow control, and runs of log files that are revoked."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from headrace.runtime.files.file_layer import NotCachedError
from headrace.runtime.files.files_io import OsFiles
from headrace.services.kafka_listener.output_io import Output
from headrace.services.kafka_listener.tls_io import TlsOutput
from headrace.storage_node.log.lending import LentRun
from node_rig import until

CONTENT = os.urandom(3_000_000)
# Stands for encryption: what was sealed twice, or not at all, is found.
SEALED = bytes(number ^ 0xFF for number in range(256))


class FileLent:
    """Bytes of a file by sendfile, whatever the kernel says of its page cache."""

    def __init__(self, file: BinaryIO, size: int, promised: int | None = None) -> None:
        self._file = file
        self._size, self._promised = size, promised or size

    def __len__(self) -> int:
        return self._promised

    def send(self, descriptor: int, start: int) -> int:
        return os.sendfile(descriptor, self._file.fileno(), start, self._size - start)

    def read_into(self, room: memoryview, start: int) -> int:
        return os.preadv(self._file.fileno(), [room[: self._size - start]], start)


class Rig:
    """An output and the far end of its connection, over TCP."""

    def __init__(self, kind: Callable[..., Output] = Output) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.far = socket.socket()
            self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
            self.far.connect(server.getsockname())
            self.near, _ = server.accept()
            self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.progress: list[int] = []
        self.is_watched = False
        self.failures = 0
        self.output = kind(
            asyncio.get_running_loop(),
            self.near.fileno(),
            progressed=lambda: self.progress.append(self.output.unsent_bytes),
            failed=self._failed,
            watch=self._watch,
        )

    def _failed(self) -> None:
        self.failures += 1

    def _watch(self, wanted: bool) -> None:
        loop = asyncio.get_running_loop()
        if wanted:
            loop.add_writer(self.near.fileno(), self.output.writable)
        else:
            loop.remove_writer(self.near.fileno())
        self.is_watched = wanted

    async def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            data = await asyncio.get_running_loop().sock_recv(self.far, min(size, 100_000))
            assert data, "the connection ended"
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    async def ask(self) -> None:
        """A client that has read its response sends the next request."""
        self.far.send(b"?")
        assert await asyncio.get_running_loop().sock_recv(self.near, 1) == b"?"
        self.output.note_request()

    def close(self) -> None:
        self.output.close()
        self.near.close()
        self.far.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[BinaryIO]:
    """A file with CONTENT."""
    made = tmp_path / "file"
    made.write_bytes(CONTENT)
    with made.open("rb") as opened:
        yield opened


@pytest.fixture
@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """Both ends, until the end of the test."""
    rig = Rig()
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
@asynccontextmanager
async def sealing() -> AsyncIterator[Rig]:
    """The same with bytes that are sealed, 100,000 at once."""
    seal = lambda view: bytes(view).translate(SEALED)  # noqa: E731
    rig = Rig(partial(TlsOutput, seal=seal, room=memoryview(bytearray(100_000))))
    try:
        yield rig
    finally:
        rig.close()


async def test_bytes_and_runs_are_sent_in_order(rig: Rig, file: BinaryIO) -> None:
    """To a slow reader, while more is written."""
    expected = b""
    for number in range(12):
        run_of = LentRun(FileLent(file, 700_000 + number), 1)
        head, tail = bytes([number]) * (number * 10_000), b"tail"
        rig.output.write([head, memoryview(head), run_of, b"", tail, bytearray(tail)])
        expected += head + head + CONTENT[: len(run_of)] + tail + tail
    assert 0 < rig.output.held_bytes < rig.output.unsent_bytes < len(expected)
    got = await rig.read(1_000_000)
    rig.output.write([b"last"])
    got += await rig.read(len(expected) - len(got))
    assert got == expected
    assert await rig.read(4) == b"last"
    assert rig.output.unsent_bytes == rig.output.held_bytes == 0
    assert rig.progress[-1] == 0
    assert rig.progress == sorted(rig.progress, reverse=True)
    assert rig.failures == 0


async def test_the_socket_is_uncorked_once_all_is_sent(rig: Rig, file: BinaryIO) -> None:
    """Bytes around runs share their packets; bytes behind the last run are not held back."""

    def is_corked(rig: Rig) -> bool:
        return bool(rig.near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK))

    rig.output.write([b"head", LentRun(FileLent(file, 10_000), 1), b"tail"])
    assert not is_corked(rig)
    await rig.read(10_008)
    rig.output.write([b"head", LentRun(FileLent(file, 3_000_000), 1), b"tail"])
    assert is_corked(rig)
    await rig.read(3_000_008)
    assert not is_corked(rig)
    rig.output.write([b"bytes"])
    assert not is_corked(rig)


async def test_more_buffers_than_one_system_call_takes(rig: Rig) -> None:
    """They are written by several calls."""
    rig.output.write([bytes([number % 251]) for number in range(5000)])
    assert await rig.read(5000) == bytes(number % 251 for number in range(5000))
    assert rig.output.unsent_bytes == 0


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_revoked_run_resets_the_connection(rig: Rig, file: BinaryIO, is_sent: bool) -> None:
    """Also when the kernel has it: no byte of the rest arrives."""
    lent = LentRun(FileLent(file, 2_000_000 if not is_sent else 60_000), 1)
    rig.output.write([lent])
    assert (rig.output.unsent_bytes == 0) is is_sent
    lent.revoke()
    await until(lambda: rig.failures == 1)
    loop = asyncio.get_running_loop()
    got = 0
    with pytest.raises(ConnectionResetError):  # noqa: PT012 -- it comes behind what was read already
        while data := await loop.sock_recv(rig.far, 1 << 20):
            got += len(data)
    rig.output.write([b"more"])
    assert rig.output.unsent_bytes == 0
    assert rig.failures == 1


async def test_the_next_request_acknowledges_the_runs(rig: Rig, file: BinaryIO) -> None:
    """A truncation of the log resets the connection only while bytes are unacknowledged."""
    first, second = (LentRun(FileLent(file, size), 1) for size in (50_000, 2_900_000))
    rig.output.write([first])
    await rig.read(50_000)
    await rig.ask()
    rig.output.write([second])
    await rig.ask()
    first.revoke()
    await asyncio.sleep(0)
    assert rig.failures == 0
    second.revoke()
    await until(lambda: rig.failures == 1)


async def test_runs_in_flight_are_bounded(rig: Rig, file: BinaryIO) -> None:
    """A client that pipelines without reading gets bytes instead."""
    given = 0
    while rig.output.may_lend:
        rig.output.write([LentRun(FileLent(file, 100), 1)])
        given += 1
    assert given <= 1000
    await rig.read(given * 100)
    await rig.ask()
    assert rig.output.may_lend


async def test_a_file_shorter_than_its_run_closes_the_connection(rig: Rig, file: BinaryIO) -> None:
    """The rest of the response can never be sent."""
    rig.output.write([b"head", LentRun(FileLent(file, 1000, promised=2000), 1), b"tail"])
    await until(lambda: rig.failures == 1)
    assert rig.output.unsent_bytes == 0


async def test_a_run_waits_for_pages_that_left_the_page_cache(rig: Rig, file: BinaryIO) -> None:
    """The order of the parts around it stays."""

    class Away(FileLent):
        tries = 3

        def send(self, descriptor: int, start: int) -> int:
            if start and self.tries:
                self.tries -= 1
                raise NotCachedError
            return super().send(descriptor, start)

    rig.output.write([b"head", LentRun(Away(file, 2_000_000), 1)])
    got = await rig.read(1000)
    rig.output.write([b"tail"])
    got += await rig.read(2_000_008 - 1000)
    assert got == b"head" + CONTENT[:2_000_000] + b"tail"
    assert rig.failures == 0


async def test_a_client_disconnects_in_the_middle_of_a_run(rig: Rig, file: BinaryIO) -> None:
    """The output fails once and holds nothing any more."""
    rig.output.write([LentRun(FileLent(file, 3_000_000), 1) for _ in range(5)])
    assert rig.output.unsent_bytes
    rig.far.close()
    await until(lambda: rig.failures == 1)
    assert rig.output.unsent_bytes == 0
    assert rig.failures == 1


async def test_a_closed_output_calls_nothing(rig: Rig) -> None:
    """Also while it waits for its reader."""
    rig.output.write([CONTENT, CONTENT, CONTENT])
    assert rig.is_watched
    rig.output.close()
    assert not rig.is_watched
    await asyncio.sleep(0)
    assert rig.failures == 0


async def test_runs_of_real_log_files_are_sent(rig: Rig, file: BinaryIO) -> None:
    """With the file layer of a log."""
    log = OsFiles().open(str(file.name))
    lent = log.lend(1000, 1_500_000)
    if lent is None:
        pytest.skip("this kernel cannot say what is cached")
    rig.output.write([LentRun(lent, 1)])
    log.close()
    assert await rig.read(1_500_000) == CONTENT[1000:1_501_000]


# --- with TLS ------------------------------------------------------------------------------------------


async def test_bytes_and_runs_are_sealed_in_order(sealing: Rig, file: BinaryIO) -> None:
    """What TLS itself sends comes between them, but not into a piece that is sealed."""
    run, last = LentRun(FileLent(file, 2_900_000), 1), LentRun(FileLent(file, 100_000), 1)
    sealing.output.write([b"head", CONTENT[:150_000], run, b"middle", last, b"tail"])
    assert sealing.output.unsent_bytes
    assert sealing.output.held_bytes < 150_000
    sealing.output.send_sealed(b"alert")
    got = (await sealing.read(3_150_019)).replace(b"alert", b"").translate(SEALED)
    assert got == b"head" + CONTENT[:150_000] + CONTENT[:2_900_000] + b"middle" + CONTENT[:100_000] + b"tail"
    assert (sealing.output.unsent_bytes, sealing.output.held_bytes) == (0, 0)
    assert sealing.failures == 0


async def test_a_run_is_revoked_until_it_is_sealed(sealing: Rig, file: BinaryIO) -> None:
    """From then on the records are copies. What was sealed of another one is not completed."""
    first, second = LentRun(FileLent(file, 50_000), 1), LentRun(FileLent(file, 2_900_000), 1)
    sealing.output.write([first])
    first.revoke()
    assert (await sealing.read(50_000)).translate(SEALED) == CONTENT[:50_000]
    assert sealing.failures == 0
    sealing.output.write([second])
    second.revoke()
    await until(lambda: sealing.failures == 1)
    assert sealing.output.unsent_bytes == 0


async def test_a_run_is_sealed_once_its_pages_are_back(sealing: Rig, file: BinaryIO) -> None:
    """The bytes before it are sent without it."""

    class Away(FileLent):
        tries = 3

        def read_into(self, room: memoryview, start: int) -> int:
            if self.tries:
                self.tries -= 1
                raise NotCachedError
            return super().read_into(room, start)

    sealing.output.write([b"head", LentRun(Away(file, 2_000_000), 1)])
    assert (await sealing.read(4)).translate(SEALED) == b"head"
    sealing.output.write([b"tail"])
    assert (await sealing.read(2_000_004)).translate(SEALED) == CONTENT[:2_000_000] + b"tail"
    assert sealing.failures == 0


async def test_a_run_behind_the_end_of_its_file_cannot_be_sealed(sealing: Rig, file: BinaryIO) -> None:
    """The rest of the response can never be sent."""
    sealing.output.write([LentRun(FileLent(file, 3_000_000, promised=3_000_001), 1)])
    reading = asyncio.ensure_future(sealing.read(3_000_000))
    await until(lambda: sealing.failures == 1)
    assert sealing.output.unsent_bytes == 0
    reading.cancel()
