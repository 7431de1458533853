"""The ports of listeners: remembered, bound, advertised."""

import socket

import pytest
from headrace.services.kafka_listener.assembly import new_kafka_listener
from kafka_listener_rig import FakeHost, listening


async def test_the_port_of_the_last_run_is_used_if_it_is_free() -> None:
    """Clients find a restarted node at its address; if the port is taken, another one is used."""
    async with listening() as rig:
        first = rig.port
        assert rig.host.ports == {"PLAINTEXT": first}
    host = FakeHost()
    host.ports = {"PLAINTEXT": first}
    listener = new_kafka_listener(host)
    assert listener.bind() == (("PLAINTEXT", "127.0.0.1", first),)
    listener.close()
    with socket.create_server(("127.0.0.1", first)):
        other = new_kafka_listener(host)
        ((_, _, port),) = other.bind()
        assert port not in (0, first)
        other.close()
    assert host.ports == {"PLAINTEXT": port}


async def test_a_configured_port_that_is_taken_is_an_error() -> None:
    """Listeners that were bound before it are closed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listener = new_kafka_listener(FakeHost(listeners=f"A://127.0.0.1:0,B://127.0.0.1:{port}"))
        with pytest.raises(OSError, match=rf"listener B: cannot listen on 127.0.0.1:{port}: .*in use"):
            listener.bind()
        assert listener.status()["connections"] == 0
