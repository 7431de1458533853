"""Clients that disconnect while their connection is not read: their memory is freed."""

import gc
import weakref

import pytest
from headrace.protocol.messages.data import FetchPartitionResponse, FetchResponse
from kafka_listener_rig import TOPIC, ListenerRig, listening
from node_rig import run, until

FETCH = 1


@pytest.mark.parametrize("is_reset", [True, False])
async def test_a_disconnect_behind_a_waiting_fetch_is_detected(rig: ListenerRig, is_reset: bool) -> None:
    """The connection is not read while requests wait, and the Fetch may wait for weeks."""
    client = await rig.client()
    for number in range(5):
        client.send(FETCH, 11, number, topic=TOPIC, partition=0, session_epoch=-1, isolation_level=0)
    request = await rig.host.request(0)
    if is_reset:
        client.close()
    else:
        client.writer.write_eof()
    await until(lambda: bool(rig.host.gone))
    assert rig.host.gone == [request.peer.session]
    assert rig.listener.status()["connections"] == 0
    assert rig.listener.status()["held_request_bytes"] == 0


def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    """Thousands of connections per second neither fill the memory nor start collections."""

    async def scenario() -> None:
        async with listening() as rig:
            client = await rig.client()
            client.send(FETCH, 11, topic=TOPIC, partition=0, session_epoch=-1, isolation_level=0)
            request = await rig.host.request(0)
            rig.host.requests.clear()
            partition = FetchPartitionResponse(0, 9, 9, 0, 1)
            request.answered(FetchResponse((partition,)), [b"batch"])
            del request
            await client.answer(FETCH, 11)
            (connection,) = rig.listener._connections
            left = weakref.ref(connection), weakref.ref(connection._output)
            del connection
            client.close()
            await until(lambda: bool(rig.host.gone))
            await until(lambda: [each() for each in left] == [None] * 2)

    gc.disable()
    try:
        run(scenario)
    finally:
        gc.enable()
