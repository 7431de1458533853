"""One context per process."""

import os
import subprocess
import sys
import threading

import pytest
import zmq
from headrace.protocol.transport import context_io
from headrace.protocol.transport.context_io import set_common_options, shared_context, tcp_endpoint

# The handler that is registered first runs last: it prints whether pyzmq's handler has stopped the thread.
SEND_AND_EXIT = """
import atexit, sys
atexit.register(lambda: print(sys.modules["zmq.utils.garbage"].gc.is_alive()))
import headrace.protocol.transport.context_io
import zmq
context = zmq.Context()
with context.socket(zmq.PUSH) as socket:
    socket.bind("inproc://exit")
    with context.socket(zmq.PULL) as other:
        other.connect("inproc://exit")
        socket.send(bytes(100_000), copy=False)
"""


def test_the_thread_of_sent_buffers_is_not_stopped_at_exit() -> None:
    """Its stop closes a socket that libzmq's thread may be using: the process would hang or abort."""
    done = subprocess.run(
        [sys.executable, "-c", SEND_AND_EXIT], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_all_threads_share_one_context() -> None:
    """Ten threads ask at once: one context."""
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(shared_context())) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_an_old_libzmq_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system library with known crashes must not serve a port."""
    monkeypatch.setattr(context_io, "_PROCESS", context_io._ProcessContext())
    monkeypatch.setattr(zmq, "zmq_version_info", lambda: (4, 3, 4))
    with pytest.raises(RuntimeError, match=r"4\.3\.5"):
        shared_context()


def test_a_forked_child_gets_its_own_and_leaves_the_parents() -> None:
    """What runs in the child after a fork: the old context is kept but not used, a new one is made."""
    process = context_io._ProcessContext()
    parents = shared_context()
    process.context = parents
    process.forked()
    assert process.context is None
    assert process.of_parents == [parents]
    assert not parents.closed
    assert os.getpid()


def test_sockets_carry_the_options_that_keep_a_server_alive() -> None:
    """Every option that a trap needs is really set on the socket."""
    socket = shared_context().socket(zmq.DEALER)
    try:
        set_common_options(
            socket, max_frame_bytes=77, handshake_ms=88, heartbeat_interval_ms=99, heartbeat_timeout_ms=500
        )
        wanted = {
            zmq.MAXMSGSIZE: 77,
            zmq.HANDSHAKE_IVL: 88,
            zmq.HEARTBEAT_IVL: 99,
            zmq.HEARTBEAT_TIMEOUT: 500,
            zmq.HEARTBEAT_TTL: 500,
            zmq.LINGER: 0,
            zmq.TCP_KEEPALIVE: 1,
        }
        assert {option: socket.getsockopt(option) for option in wanted} == wanted
    finally:
        socket.close()


@pytest.mark.parametrize(
    ("address", "port", "name"),
    [("127.0.0.1", 9, "tcp://127.0.0.1:9"), ("::1", 9, "tcp://[::1]:9"), ("0.0.0.0", 0, "tcp://0.0.0.0:*")],
)
def test_endpoints(address: str, port: int, name: str) -> None:
    """Both families, and port 0 for any."""
    assert tcp_endpoint(address, port) == name
