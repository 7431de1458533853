"""Connection events of ZeroMQ's monitor."""

import zmq
from headrace.protocol.transport.context_io import shared_context
from headrace.protocol.transport.monitor_io import SocketMonitor
from transport_kit import until


async def test_connects_and_disconnects_are_reported() -> None:
    """With the same descriptor."""
    events: list[tuple[int, int]] = []
    server, client = shared_context().socket(zmq.ROUTER), shared_context().socket(zmq.DEALER)
    monitor = SocketMonitor(
        server, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED, lambda event, fd: events.append((event, fd))
    )
    port = server.bind_to_random_port("tcp://127.0.0.1")
    client.connect(f"tcp://127.0.0.1:{port}")
    await until(lambda: events)
    client.close(0)
    await until(lambda: len(events) == 2)
    assert [event for event, _ in events] == [zmq.EVENT_ACCEPTED, zmq.EVENT_DISCONNECTED]
    assert events[0][1] == events[1][1] >= 0
    monitor.close()
    monitor.close()
    server.close(0)


async def test_events_before_the_first_poll_are_reported() -> None:
    """Events that arrived while the loop was busy consume the edge; they are reported nevertheless."""
    events: list[int] = []
    server = shared_context().socket(zmq.ROUTER)
    monitor = SocketMonitor(server, zmq.EVENT_LISTENING, lambda event, _: events.append(event))
    server.bind_to_random_port("tcp://127.0.0.1")
    monitor.drain()
    assert events == [zmq.EVENT_LISTENING]
    monitor.close()
    server.close(0)


async def test_waiting_for_one_event_blocks_until_it_is_there() -> None:
    """A listening socket is closed: its event arrives in time; waiting for a missing event ends, too."""
    server = shared_context().socket(zmq.ROUTER)
    monitor = SocketMonitor(server, zmq.EVENT_CLOSED, lambda event, _: None)
    server.bind_to_random_port("tcp://127.0.0.1")
    server.unbind(server.getsockopt_string(zmq.LAST_ENDPOINT))
    assert monitor.wait_for(zmq.EVENT_CLOSED, 10_000)
    assert not monitor.wait_for(zmq.EVENT_ACCEPTED, 1)
    monitor.close()
    server.close(0)
