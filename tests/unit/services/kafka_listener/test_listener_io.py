"""The ports of a node's listeners: remembered, taken, advertised."""

from __future__ import annotations

import socket

import pytest
from headrace.services.kafka_listener.listener_io import KafkaListener
from kafka_listener_rig import FakeHost, listening
from node_rig import run


def test_any_free_port_is_remembered_and_tried_again() -> None:
    """So that clients find a node that was started anew; if it is taken, another one is."""

    async def scenario() -> None:
        async with listening() as rig:
            first = rig.port
            assert rig.host.ports == {"PLAINTEXT": first}
        host = FakeHost()
        host.ports = {"PLAINTEXT": first}
        listener = KafkaListener(host)
        assert listener.bind() == (("PLAINTEXT", "127.0.0.1", first),)
        listener.close()
        with socket.create_server(("127.0.0.1", first)):
            other = KafkaListener(host)
            ((_, _, port),) = other.bind()
            assert port not in (0, first)
            other.close()
        assert host.ports == {"PLAINTEXT": port}

    run(scenario)


def test_a_port_that_is_asked_for_is_needed() -> None:
    """Nobody would look for the node elsewhere; what was bound before it is free again."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            listener = KafkaListener(FakeHost(listeners=f"A://127.0.0.1:0,B://127.0.0.1:{port}"))
            with pytest.raises(OSError, match=rf"listener B: cannot listen on 127.0.0.1:{port}: .*in use"):
                listener.bind()
            assert listener.status()["connections"] == 0

    run(scenario)
