"""Ceilings: a loop that only receives and writes, ZeroMQ alone, the page cache, the checksum."""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..worker import Clock

BLOCK = 64 * 1024
FILE_BYTES = 1 << 30


def serve(directory: str, mode: str) -> None:
    """A ROUTER that replies to messages with 8 bytes; in `mode` write it writes each part to a file."""
    import zmq

    socket = zmq.Context().socket(zmq.ROUTER)
    socket.setsockopt(zmq.RCVHWM, 1000)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    path = os.path.join(directory, f"bare-{os.getpid()}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.unlink(path)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"ready {port}", flush=True)
    offset, write = 0, mode == "write"
    recv, send = socket.recv, socket.send
    while True:
        sender = recv()
        more = True
        while more:
            frame = recv(copy=False)
            more = frame.more
            if write:
                offset += os.pwritev(fd, [frame.buffer], offset)
        send(sender, zmq.SNDMORE)
        send(b"12345678")


def bareclient(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `count` messages of `batches` parts of `size` bytes to a bare server, `window` in flight."""
    import zmq

    from .raw import ready_batch

    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(f"tcp://127.0.0.1:{spec['port']}")
    message, _ = ready_batch(spec["size"])  # the same bytes as in the raw cell
    recv, send, window, last = socket.recv, socket.send, spec["window"], spec["batches"] - 1

    def run(count: int) -> None:
        for number in range(count + window):
            if number >= window:
                recv()
            if number < count:
                for _ in range(last):
                    send(message, zmq.SNDMORE, copy=False)
                send(message, copy=False)

    run(200)
    clock.ready()
    clock.start()
    run(spec["count"])
    return {**clock.stop(), "records": spec["count"] * spec["batches"],
            "bytes": spec["count"] * spec["batches"] * len(message)}  # fmt: skip


def pagecache(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Write a file of 1 GiB in blocks of 64 KiB, to pages that were touched before."""
    path, block = os.path.join(spec["directory"], "pages"), random.Random(1).randbytes(BLOCK)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.unlink(path)
    clock.ready()
    clock.start()
    for offset in range(0, FILE_BYTES, BLOCK):
        os.pwritev(fd, [block], offset)
    return {**clock.stop(), "records": FILE_BYTES // BLOCK, "bytes": FILE_BYTES}


def crc(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """CRC-32C of blocks of 64 KiB, in the processor's cache."""
    from crc32c import crc32c

    block = random.Random(1).randbytes(BLOCK)
    clock.ready()
    clock.start()
    for _ in range(spec["count"]):
        crc32c(block)
    return {**clock.stop(), "records": spec["count"], "bytes": spec["count"] * BLOCK}


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
