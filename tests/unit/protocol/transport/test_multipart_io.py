"""Whole messages in and out: small parts copied, large ones as they lie, nothing half sent, nothing kept.

Both twins run all of it (conftest)."""

import errno
import itertools
import logging
import random
import resource
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from headrace.protocol.transport import _multipart, multipart_io
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.multipart_io import (
    DEALER_ENVELOPE,
    ROUTER_ENVELOPE,
    Multipart,
    PythonMultipart,
    open_multipart,
    pick_multipart,
    ready_part,
)
from headrace.protocol.transport.pending import PendingBytes
from headrace.protocol.transport.wire import COPY_BELOW_BYTES

NUMBERS = itertools.count()
LARGE = COPY_BELOW_BYTES
ENOUGH = 10_000
PATIENCE_MS = 20_000


class Watched(bytearray):
    """Bytes that a weak reference can watch."""


@pytest.fixture
def pair() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    yield from sockets(zmq.PAIR, zmq.PAIR, f"inproc://pair-{next(NUMBERS)}", 0)


@pytest.fixture
def narrow() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A pair whose queues take one message each."""
    yield from sockets(zmq.PAIR, zmq.PAIR, f"inproc://pair-{next(NUMBERS)}", 1)


@pytest.fixture
def tcp() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A ROUTER and a DEALER on it."""
    yield from sockets(zmq.ROUTER, zmq.DEALER, "tcp://127.0.0.1:*", 0)


def sockets(
    left_kind: int, right_kind: int, name: str, mark: int
) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    left, right = shared_context().socket(left_kind), shared_context().socket(right_kind)
    for socket in (left, right):
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, mark)
        socket.setsockopt(zmq.RCVHWM, mark)
    left.bind(name)
    right.connect(left.getsockopt_string(zmq.LAST_ENDPOINT))
    yield left, right
    left.close()
    right.close()


def both(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> tuple[Multipart, Multipart]:
    left, right = pair
    return (open_multipart(left, envelope=DEALER_ENVELOPE), open_multipart(right, envelope=DEALER_ENVELOPE))


def received(messages: Multipart, socket: zmq.Socket[bytes], max_parts: int = ENOUGH) -> Any:
    assert socket.poll(PATIENCE_MS), "no message arrived"
    parts = messages.receive(max_parts)
    assert parts is not None
    return parts


def is_dead(watch: weakref.ref[Any]) -> bool:
    """Whether the watched object goes away, as the thread of ZeroMQ lets go of it."""
    for _ in range(10_000):
        _multipart.reap()
        if watch() is None:
            return True
        threading.Event().wait(0.001)
    return False


def comes_to_nothing(pending: PendingBytes, owner: bytes) -> None:
    """The account goes down to zero, as the thread of ZeroMQ lets go; a leak would run into the timeout."""
    while pending.total():
        threading.Event().wait(0.001)
    assert pending.of(owner) == 0


def test_small_parts_are_copied_and_large_ones_are_not() -> None:
    """The copy is the caller's to change at once; a large buffer is the very one that is sent."""
    small, large = bytearray(b"s" * 10), bytearray(b"l" * LARGE)
    copied, shared = ready_part(small), ready_part(large)
    small[:] = large[:10] = b"changed   "
    assert copied == b"s" * 10
    assert isinstance(shared, memoryview)
    assert bytes(shared[:10]) == b"changed   "
    data = b"as it is"
    assert ready_part(data) is data
    assert len(ready_part(memoryview(bytes(LARGE)).cast("q"))) == LARGE  # bytes, whatever the items are


def test_large_part_is_sent_without_a_copy(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """No copy is made on the way between two threads' queues: both ends see the same memory."""
    left, right = both(pair)
    data = bytearray(b"x" * LARGE)
    left.send([b"h", b"b", data])
    _, _, frame = received(right, pair[1])
    data[0] = ord("y")
    assert bytes(frame[:2]) == b"yx"


def test_parts_in_several_pieces_are_refused(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """A strided view would send other bytes than it shows; the good part before it is let go of, unsent."""
    left, right = both(pair)
    torn = memoryview(bytes(4 * LARGE))[::2]
    with pytest.raises(BufferError):
        ready_part(torn)
    good = Watched(LARGE)
    watch = weakref.ref(good)
    with pytest.raises(BufferError):
        left.send([b"h", good, torn])
    del good
    assert is_dead(watch)
    left.send([b"next", b""])
    assert received(right, pair[1]) == [b"next", b""]


def test_received_views_outlive_everything(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Small or large, the bytes stay readable when later messages have come and the sockets are closed."""
    left, right = both(pair)
    kept = []
    for number, size in enumerate((5, LARGE * 3, 0, LARGE - 1, LARGE)):
        left.send([b"h", b"b", bytes([number]) * size])
        kept.append(received(right, pair[1])[2])
    left.close(0)
    right.close(0)
    assert [bytes(view) for view in kept] == [
        bytes([number]) * size for number, size in enumerate((5, LARGE * 3, 0, LARGE - 1, LARGE))
    ]
    assert all(isinstance(view, memoryview) and view.readonly for view in kept)
    with pytest.raises(TypeError):
        kept[1][0] = 0


def test_only_frames_are_always_views(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Header and body are bytes, unless they are large; frames are views that slice without a copy."""
    left, right = both(pair)
    left.send([b"h", b"b", b"f"])
    assert [type(part) for part in received(right, pair[1])] == [bytes, bytes, memoryview]
    left.send([b"h", bytes(LARGE), b"f"])
    assert [type(part) for part in received(right, pair[1])] == [bytes, memoryview, memoryview]


def test_a_message_that_finds_no_room_is_not_sent_at_all(
    narrow: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """EAGAIN from the first part: its buffers are free, and the next message is whole."""
    left, right = both(narrow)
    sent = 0
    while narrow[0].poll(0, zmq.POLLOUT):
        left.send([b"%d" % sent, b"body", b"tail"])
        sent += 1
    refused = Watched(b"r" * LARGE)
    watch = weakref.ref(refused)
    with pytest.raises(zmq.Again):
        left.send([b"too much", b"body", refused])
    del refused
    assert is_dead(watch)
    for number in range(sent):
        assert right.receive(ENOUGH) == [b"%d" % number, b"body", b"tail"]
    assert right.receive(ENOUGH) is None
    assert narrow[0].poll(PATIENCE_MS, zmq.POLLOUT)
    left.send([b"next", b"y" * LARGE])
    assert received(right, narrow[1]) == [b"next", b"y" * LARGE]


def test_hundreds_of_parts(tcp: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """A fetch answer of many frames, small and large mixed, arrives whole and in order."""
    server, client = tcp
    right = open_multipart(client, envelope=DEALER_ENVELOPE)
    left = open_multipart(server, envelope=ROUTER_ENVELOPE, pending=PendingBytes())
    parts = [b"h", b"b", *[bytes([n % 256]) * (n * 37 % (2 * LARGE)) for n in range(700)]]
    right.send(parts)
    key, *echo = received(left, server)
    assert echo == parts
    left.send([key, *echo], key)
    assert received(right, client) == parts


def test_a_message_too_long_is_cut_and_the_rest_skipped(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """Only the requested parts are assembled; the skip takes several turns; the next message is whole."""
    left, right = both(pair)
    long = [b"%d" % number for number in range(100)]
    left.send(long)
    assert received(right, pair[1], 7) == long[:7]
    assert right.is_cut
    assert not right.skip(50)
    assert right.skip(50)
    assert not right.is_cut
    left.send([b"whole", b""])
    assert received(right, pair[1], 2) == [b"whole", b""]
    assert not right.is_cut
    assert right.receive(2) is None


def test_sent_buffers_are_counted_until_sent_and_then_freed(
    tcp: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """By owner, to the byte; small parts do not count, nor does what was refused."""
    server, client = tcp
    pending = PendingBytes()
    left = open_multipart(server, envelope=ROUTER_ENVELOPE, pending=pending)
    right = open_multipart(client, envelope=DEALER_ENVELOPE)
    right.send([b"hello", b""])
    key = received(left, server)[0]
    buffers = [Watched(LARGE + number) for number in range(50)]
    watches = [weakref.ref(buffer) for buffer in buffers]
    for buffer in buffers:
        left.send([key, b"h", b"small", buffer], key)
    del buffers, buffer
    for number in range(50):
        assert len(received(right, client)[2]) == LARGE + number
    assert all(is_dead(watch) for watch in watches)
    comes_to_nothing(pending, key)
    server.setsockopt(zmq.ROUTER_MANDATORY, 1)
    with pytest.raises(zmq.ZMQError) as refusal:
        left.send([b"absent", b"h", bytes(LARGE)], b"absent")
    assert refusal.value.errno == zmq.EHOSTUNREACH
    del refusal  # it holds the stack
    comes_to_nothing(pending, b"absent")
    with pytest.raises(BufferError):
        left.send([key, bytes(LARGE), memoryview(bytes(4 * LARGE))[::2]], key)
    comes_to_nothing(pending, key)


def test_a_buffer_counts_while_the_other_end_holds_it(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """Inside one process the reader shares the memory: it counts, for its owner, until it is dropped."""
    pending = PendingBytes()
    left = open_multipart(pair[0], envelope=DEALER_ENVELOPE, pending=pending)
    right = open_multipart(pair[1], envelope=DEALER_ENVELOPE)
    left.send([b"a", b"", bytes(LARGE)], b"a")
    first = received(right, pair[1])
    left.send([b"b", b"", bytes(2 * LARGE)], b"b")
    second = received(right, pair[1])
    assert (pending.total(), pending.of(b"a"), pending.of(b"b")) == (3 * LARGE, LARGE, 2 * LARGE)
    del first
    while pending.of(b"a"):
        threading.Event().wait(0.001)
    assert pending.total() == pending.of(b"b") == 2 * LARGE
    del second
    comes_to_nothing(pending, b"b")


def test_the_connection_of_a_message_is_known(tcp: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Its descriptor, also when the first part is large; nothing without a message."""
    server, client = tcp
    left = open_multipart(server, envelope=ROUTER_ENVELOPE, pending=PendingBytes())
    right = open_multipart(client, envelope=DEALER_ENVELOPE)
    assert left.source() == -1
    right.send([b"small", b""])
    received(left, server)
    small = left.source()
    assert small > 0
    right.send([bytes(LARGE), b""])
    received(left, server)
    assert left.source() == small
    right.send([b"alone"])
    assert received(left, server)[1:] == [b"alone"]
    assert left.source() == small


def test_a_closed_socket_is_never_touched(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """The compiled twin holds the raw handle: after close it must answer like pyzmq, not crash."""
    left, _ = both(pair)
    left.close(0)
    for use in (lambda: left.send([b"a", b"b"]), lambda: left.receive(2)):
        with pytest.raises(zmq.ZMQError) as error:
            use()
        assert error.value.errno in (errno.ENOTSOCK, zmq.ENOTSUP)


def test_threads_send_receive_and_drop(tcp: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """One thread sends, one receives, a third drops what was received: all arrives, nothing stays counted."""
    server, client = tcp
    pending = PendingBytes()
    left = open_multipart(server, envelope=ROUTER_ENVELOPE, pending=pending)
    right = open_multipart(client, envelope=DEALER_ENVELOPE)
    right.send([b"hello", b""])
    key = received(left, server)[0]
    count, held, sums = 600, [], []
    sizes = random.Random(3).choices(range(1, 5 * LARGE), k=count)

    def receive() -> None:
        while len(sums) < count:
            frame = received(right, client)[2]
            sums.append(len(frame))
            held.append(frame)

    def drop() -> None:
        while len(sums) < count or held:
            if held:
                held.pop()

    threads = [threading.Thread(target=receive), threading.Thread(target=drop)]
    for thread in threads:
        thread.start()
    for size in sizes:
        left.send([key, b"h", b"b", bytes(size)], key)
        assert pending.total() >= 0
    for thread in threads:
        thread.join()
    assert sums == sizes
    comes_to_nothing(pending, key)


def test_received_memory_is_given_back(tcp: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """A gigabyte passes through; the process does not keep a fifth of it."""
    server, client = tcp
    left = open_multipart(server, envelope=ROUTER_ENVELOPE, pending=PendingBytes())
    right = open_multipart(client, envelope=DEALER_ENVELOPE)
    data = bytes(1_000_000)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        right.send([b"h", b"b", data])
        assert len(received(left, server)[3]) == len(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200_000


def test_any_messages_arrive_as_they_were_sent(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Random messages and limits: what comes out is what went in, cut where the limit says."""
    left, right = both(pair)
    dice = random.Random(7)
    sizes = (0, 1, 33, 34, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE)
    kinds: tuple[Callable[[bytes], Any], ...] = (bytes, bytearray, memoryview)
    for _ in range(400):
        parts = [dice.randbytes(dice.choice(sizes)) for _ in range(dice.choice((1, 2, 3, 16, 17, 40)))]
        left.send([dice.choice(kinds)(part) for part in parts])
        limit = dice.randint(1, 45)
        assert received(right, pair[1], limit) == parts[:limit]
        assert right.is_cut == (len(parts) > limit)
        while right.is_cut:
            right.skip(dice.randint(1, 9))


# --- which twin -------------------------------------------------------------------------------------------


def test_the_environment_picks_the_twin() -> None:
    """HEADRACE_CODEC=python gives the readable one, nothing and "compiled" the compiled one."""
    assert pick_multipart("python") is PythonMultipart
    assert pick_multipart(None) is pick_multipart("compiled") is _multipart.CompiledMultipart


@pytest.mark.parametrize("fault", [ImportError("not built"), RuntimeError("libzmq (4, 3, 4) was found")])
def test_without_its_libzmq_the_readable_twin_serves(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Slower, and one line in the log says why."""

    def fail() -> None:
        raise fault

    monkeypatch.setattr(multipart_io, "_bound_twin", fail)
    with caplog.at_level(logging.WARNING):
        assert pick_multipart(None) is PythonMultipart
    assert [record.getMessage() for record in caplog.records] == [
        "sending messages through pyzmq, which is slower, because the compiled module is unavailable:"
        f" {fault}"
    ]


def test_a_missing_build_names_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to run, not only what could not be imported."""
    name = _multipart.__name__
    monkeypatch.delattr(sys.modules[name.rpartition(".")[0]], "_multipart", raising=False)
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    with pytest.raises(ImportError, match="make codec"):
        multipart_io._bound_twin.__wrapped__()


def test_a_missing_function_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A libzmq without one of the functions is not called at all."""
    monkeypatch.setattr(_multipart, "FUNCTIONS", (*_multipart.FUNCTIONS[:-1], "zmq_no_such_function"))
    with pytest.raises(AttributeError):
        multipart_io._bound_twin.__wrapped__()


@pytest.mark.parametrize("addresses", [[], [0] * len(_multipart.FUNCTIONS), [1]])
def test_addresses_that_cannot_be_are_refused(addresses: list[int]) -> None:
    """Before any of them is called."""
    with pytest.raises(ValueError, match="one address for each"):
        _multipart.bind(addresses)


def test_many_small_parts_count_until_they_are_sent(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]],
) -> None:
    """A thousand small frames count with their places in the queue; a few do not; nothing stays."""
    pending = PendingBytes()
    left = open_multipart(pair[0], envelope=DEALER_ENVELOPE, pending=pending)
    right = open_multipart(pair[1], envelope=DEALER_ENVELOPE)
    left.send([b"h", b"b", bytes(100)], b"a")
    assert pending.total() == 0
    received(right, pair[1])
    for last in (bytes(8000), memoryview(bytearray(8000)), b"", bytes(LARGE)):
        frames = [bytes(8000)] * 999
        left.send([b"", *frames, last], b"a")
        small = 1000 + (len(last) < COPY_BELOW_BYTES)
        assert pending.of(b"a") == 999 * 8000 + len(last) + 64 * small
        assert [bytes(part) for part in received(right, pair[1])] == [b"", *frames, bytes(last)]
        comes_to_nothing(pending, b"a")
