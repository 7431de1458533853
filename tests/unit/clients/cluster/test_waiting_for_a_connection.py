"""Several requests wait for one connection: each has its own timeout, and a success resets the backoff."""

import asyncio
import socket
from random import Random
from typing import Any

import pytest
from headrace.clients.cluster.network import Address
from headrace.clients.cluster.network_io import ZmqNetwork
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import NetworkError
from headrace.runtime.clock_io import monotonic_ms
from transport_kit import ASK, METADATA, Served, run


@pytest.fixture
def run_async() -> Any:
    """On real sockets: not in virtual time."""
    return run


async def test_timeout_of_one_request_does_not_end_the_attempt() -> None:
    """The port accepts and is silent: the other request ends with its own error, at its own time."""
    net = ZmqNetwork(ConnectionConfig.of({"client.id": "me"}), monotonic_ms, Random(1))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = Address("127.0.0.1", silent.getsockname()[1])
        patient = asyncio.ensure_future(net.request(address, METADATA, ASK, timeout_ms=150))
        with pytest.raises(NetworkError, match="20 ms"):
            await net.request(address, METADATA, ASK, timeout_ms=20)
        assert not patient.done()
        with pytest.raises(NetworkError, match="150 ms"):
            await patient
    await net.close()


async def test_success_resets_the_backoff() -> None:
    """Three failed attempts, a success, a failure: the wait is that of a first failure."""
    clock = [1_000]
    config = ConnectionConfig.of(
        {"client.id": "me", "reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 100_000}
    )
    net = ZmqNetwork(config, lambda: clock[0], Random(1))
    served = Served()
    port = served.router.start()
    served.router.close()
    address = Address("127.0.0.1", port)
    for _ in range(6):
        clock[0] += 1_000_000
        with pytest.raises(NetworkError):
            await net.request(address, METADATA, ASK, timeout_ms=5_000)
    clock[0] += 1_000_000
    again = Served()
    again.router.port = port
    again.router.start()
    await net.request(address, METADATA, ASK, timeout_ms=5_000)
    again.router.close()
    with pytest.raises(NetworkError):
        await net.request(address, METADATA, ASK, timeout_ms=5_000)
    with pytest.raises(NetworkError):
        await net.request(address, METADATA, ASK, timeout_ms=5_000)
    assert net._slots[address].retry_at_ms - clock[0] <= 200
    await net.close()
