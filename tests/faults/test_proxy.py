"""The chaos network applies the configured faults and no others, over plain sockets."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from proxy import HOST, ChaosNetwork, Way, between, toward

PATIENCE_S = 60.0
ONE = [("client-1", "node-1")]


class Echo:
    """Echoes every byte, and records how its connections end."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.ends: list[str] = []
        self.received = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1 << 16):
                    self.received += data
                    connection.sendall(data)
                self.ends.append("end")
            except ConnectionResetError:
                self.ends.append("reset")


@pytest.fixture
def network() -> Iterator[ChaosNetwork]:
    with ChaosNetwork(seed=1) as made:
        yield made
    assert made.failure is None


@pytest.fixture
def echo(network: ChaosNetwork) -> Iterator[Echo]:
    made = Echo()
    network.listen("node-1")
    network.route("node-1", made.port)
    yield made
    made.close()


def until(is_so: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    ends_at, never = time.monotonic() + PATIENCE_S, threading.Event()
    while not is_so():
        assert time.monotonic() < ends_at, "the condition never held"
        never.wait(0.002)


def call(network: ChaosNetwork, name: str = "client-1") -> socket.socket:
    """A connection whose name was sent and echoed."""
    caller = dial(network)
    caller.sendall(name.encode())
    assert receive(caller, len(name)) == name.encode()
    return caller


@pytest.fixture
def caller(network: ChaosNetwork, echo: Echo) -> Iterator[socket.socket]:
    with call(network) as made:
        yield made


def dial(network: ChaosNetwork) -> socket.socket:
    caller = socket.create_connection((HOST, network._proxies["node-1"].port))
    caller.settimeout(PATIENCE_S)
    return caller


def receive(caller: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (data := caller.recv(size - len(found))):
        found += data
    return found


def test_bytes_pass_in_both_directions_and_are_counted(network: ChaosNetwork, echo: Echo) -> None:
    """More than the buffers hold; the end of the stream passes."""
    with call(network) as caller:
        data = bytes(range(256)) * 40_000
        sending = threading.Thread(target=caller.sendall, args=(data,))
        sending.start()
        assert receive(caller, len(data)) == data
        sending.join()
        figures = network.figures("client-1", "node-1")
        assert figures["out"] == figures["back"] + figures["held_back"] == len(data) + 8
        assert (figures["accepted"], figures["open"]) == (1, 1)
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(1) == b""
    until(lambda: network.figures("client-1", "node-1")["open"] == 0)
    assert echo.ends == ["end"]


def test_frozen_link_holds_bytes_until_it_heals(network: ChaosNetwork, echo: Echo) -> None:
    """Bytes arrive late, in order; other links are not affected."""
    with call(network) as caller, call(network, "client-2") as other:
        network.freeze(ONE)
        caller.sendall(b"one")
        until(lambda: network.figures("client-1", "node-1")["held_out"] == 3)
        other.sendall(b"two")
        assert receive(other, 3) == b"two"
        caller.setblocking(False)
        with pytest.raises(BlockingIOError):
            caller.recv(1)
        caller.settimeout(PATIENCE_S)
        network.heal()
        assert receive(caller, 3) == b"one"


def test_link_frozen_in_one_direction(caller: socket.socket, network: ChaosNetwork, echo: Echo) -> None:
    """The server receives requests, and its responses are held."""
    network.freeze(ONE, Way.BACK)
    caller.sendall(b"one")
    until(lambda: network.figures("client-1", "node-1")["held_back"] == 3)
    assert echo.received.endswith(b"one")
    network.heal()
    assert receive(caller, 3) == b"one"


def test_link_frozen_before_the_connection(network: ChaosNetwork, echo: Echo) -> None:
    """The name is read, and not forwarded."""
    network.freeze(ONE)
    with dial(network) as caller:
        caller.sendall(b"client-1")
        until(lambda: network.figures("client-1", "node-1")["held_out"] == 8)
        assert echo.received == b""


def test_reset_ends_both_sides(network: ChaosNetwork, echo: Echo) -> None:
    """Held bytes never arrive; new connections succeed."""
    with call(network) as caller:
        network.freeze(ONE)
        caller.sendall(b"lost")
        until(lambda: network.figures("client-1", "node-1")["held_out"] == 4)
        assert network.reset(ONE) == 1
        with pytest.raises(ConnectionResetError):
            caller.recv(1)
        until(lambda: echo.ends)
        assert echo.ends == ["reset"]
    network.heal()
    call(network).close()
    assert b"lost" not in echo.received


def test_cut_link_refuses_its_client(network: ChaosNetwork, echo: Echo) -> None:
    """Other clients connect."""
    with call(network) as caller:
        assert network.cut(ONE) == 1
        with pytest.raises(ConnectionResetError):
            caller.recv(1)
    with dial(network) as again:
        again.sendall(b"client-1")
        with pytest.raises(ConnectionResetError):
            again.recv(1)
    call(network, "node-2").close()
    network.heal()
    call(network).close()


def test_half_closed_link(caller: socket.socket, network: ChaosNetwork, echo: Echo) -> None:
    """The server sees an end and may still respond; later bytes of the client are dropped."""
    network.freeze(ONE, Way.BACK)
    caller.sendall(b"before")
    until(lambda: network.figures("client-1", "node-1")["held_back"] == 6)
    network.half_close(ONE, Way.OUT)
    until(lambda: echo.ends)
    assert echo.ends == ["end"]
    network.heal()
    assert receive(caller, 6) == b"before"
    assert caller.recv(1) == b""


def test_trickle_changes_only_the_pieces(caller: socket.socket, network: ChaosNetwork) -> None:
    """Every byte in a write of its own."""
    network.shape(ONE, piece_bytes=1)
    caller.sendall(b"abc" * 100)
    assert receive(caller, 300) == b"abc" * 100


def test_delay_and_rate_are_lower_bounds(caller: socket.socket, network: ChaosNetwork) -> None:
    """A loaded machine may add to both."""
    network.shape(ONE, Way.OUT, delay_s=0.05)
    network.shape(ONE, Way.BACK, bytes_per_s=10_000, piece_bytes=100)
    begun = time.monotonic()
    caller.sendall(b"x" * 1_000)
    assert receive(caller, 1_000) == b"x" * 1_000
    assert time.monotonic() - begun >= 0.05 + 0.1


def test_losses_reset_connections(caller: socket.socket, network: ChaosNetwork) -> None:
    network.shape(ONE, Way.OUT, reset_chance=1.0)
    caller.sendall(b"one")
    with pytest.raises(ConnectionResetError):
        caller.recv(1)


def test_stopped_or_moved_server(network: ChaosNetwork, echo: Echo) -> None:
    """A connection to a stopped server is reset; `route` leads to the next one."""
    echo.close()
    with dial(network) as caller, pytest.raises(ConnectionResetError):
        caller.recv(1)
    again = Echo()
    network.route("node-1", again.port)
    call(network).close()
    again.close()


def test_links_between_groups() -> None:
    """Both groups may open connections, so one direction of bytes has two kinds of flow."""
    assert between(["node-1"], ["node-2", "node-1"]) == [("node-1", "node-2"), ("node-2", "node-1")]
    assert toward(["node-1"], ["node-2"]) == [
        (("node-1", "node-2"), Way.OUT),
        (("node-2", "node-1"), Way.BACK),
    ]
