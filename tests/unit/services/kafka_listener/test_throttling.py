"""Client quotas: the response names the throttle time at once, and the connection is muted meanwhile."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from headrace.protocol.errors import UnknownTopicOrPartitionError
from headrace.protocol.messages import data
from headrace.protocol.messages.control import (
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    ItemError,
)
from headrace.services.kafka_listener.entities import MS
from kafka_calls import FakePlane
from kafka_listener_rig import TOPIC, listening, small_image
from node_rig import until

PRODUCE, FETCH, METADATA, VERSIONS = 0, 1, 3, 18
CREATE, DELETE, GROW = 19, 20, 37
ALL = (("client-id", None),)


def plane(entity: Any = ALL, **quotas: float) -> FakePlane:
    """A node whose metadata has these quotas."""
    made = FakePlane(replace(small_image(), client_quotas={entity: quotas}))
    made.clock_ms = 100_000
    return made


def produced(made: FakePlane, size: int, **values: Any) -> int:
    """The throttle time of a Produce of so many bytes, in ms."""
    made.sent.clear()
    call = made.start(PRODUCE, 9, name=TOPIC, index=0, records=bytes(size), **values)
    made.answer(data.ProduceResponse((data.ProducePartitionResponse(0, 5),)))
    if values.get("acks", 1):
        assert made.only_response(PRODUCE, 9).throttle_time == call.throttle_ms * MS
    return call.throttle_ms


def test_produce_above_the_quota_is_throttled() -> None:
    """Until the rate is at the quota; with acks=0, too."""
    made = plane(producer_byte_rate=1_000.0)
    assert produced(made, 5_000) == 0
    first = produced(made, 6_000)
    assert 1_000 <= first < 1_500
    assert produced(made, 1_000, acks=0) > first
    assert made.throttle.status()["throttled"] == {"producer_byte_rate": 2}
    made.clock_ms += 30_000
    assert produced(made, 1_000) == 0


def test_a_quota_throttles_its_client_alone() -> None:
    """And a producer quota does not throttle fetches."""
    made = plane((("client-id", "other"),), producer_byte_rate=1.0)
    assert produced(made, 50_000) == 0
    made = plane(consumer_byte_rate=1.0)
    assert produced(made, 50_000) == 0
    made = plane((("user", "ANONYMOUS"),), producer_byte_rate=1.0)
    assert produced(made, 50_000) > 0


def fetched(made: FakePlane, size: int, **values: Any) -> Any:
    """The answer to a Fetch for which the node has so many bytes."""
    made.sent.clear()
    base = {
        "topic": TOPIC,
        "partition": 0,
        "forgotten_topics_data": (),
        "max_bytes": 1 << 20,
        "min_bytes": 1 << 19,
    }
    made.start(FETCH, 12, **(base | {"session_id": 0, "session_epoch": -1} | values))
    made.answer(data.FetchResponse((data.FetchPartitionResponse(0, 9, 9, 0, frame_count=1),)), [bytes(size)])
    return made.only_response(FETCH, 12)


def test_a_fetch_above_the_quota_has_no_records() -> None:
    """They are not counted: the client gets them after the wait. A Fetch is bounded by all windows."""
    made = plane(consumer_byte_rate=1_000.0)
    assert fetched(made, 9_000).responses[0].partitions[0].records == bytes(9_000)
    asked = made.asked[-1].body
    assert asked.max_bytes == asked.min_bytes == 10_000
    response = fetched(made, 5_000)
    assert (response.throttle_time, response.responses, int(response.error_code)) == (4_000 * MS, (), 0)
    assert fetched(made, 5_000).throttle_time == 4_000 * MS
    assert made.throttle.status()["throttled"] == {"consumer_byte_rate": 2}
    made.clock_ms += 11_000
    assert fetched(made, 5_000).responses[0].partitions[0].records == bytes(5_000)


def test_a_batch_above_the_quota_is_read_with_empty_windows() -> None:
    """Then it counts in full."""
    made = plane(consumer_byte_rate=1_000.0)
    assert fetched(made, 100).throttle_time == 0 * MS
    response = fetched(made, 50_000)
    assert response.responses == ()
    assert 0 * MS < response.throttle_time < 1_000 * MS
    made.clock_ms += 11_000
    assert fetched(made, 50_000).responses[0].partitions[0].records == bytes(50_000)
    assert fetched(made, 1).throttle_time > 30_000 * MS


def test_fetch_sessions_outlive_a_throttled_response() -> None:
    """The changes are in the next response. A session does not begin with a throttled response."""
    made = plane(consumer_byte_rate=1_000.0)
    assert fetched(made, 9_000).throttle_time == 0 * MS
    assert fetched(made, 5_000, session_epoch=0).session_id == 0
    assert len(made.fetch_sessions) == 0
    made.clock_ms += 30_000
    session = fetched(made, 9_000, session_epoch=0).session_id
    assert session > 0
    response = fetched(made, 5_000, session_id=session, session_epoch=1, topics=())
    assert (response.session_id, response.responses, response.throttle_time > 0 * MS) == (session, (), True)
    made.clock_ms += 30_000
    response = fetched(made, 5_000, session_id=session, session_epoch=2, topics=())
    assert response.responses[0].partitions[0].records == bytes(5_000)


def test_request_time_is_counted() -> None:
    """In percent of a handler's duration; one window is the longest wait."""
    made = plane(request_percentage=1.0)
    made.handler_s = 5.0
    for wait_ms in (0, 1_000):
        made.sent.clear()
        made.start(VERSIONS, 3, client_software_name="a")
        assert made.only_response(VERSIONS, 3).throttle_time == wait_ms * MS
        produced(made, 10)


@pytest.mark.parametrize(
    ("api_key", "strict", "values", "answer"),
    [
        (CREATE, 6, {"name": "new"}, CreateTopicsResponse((CreatedTopic("new", 89),), -1, 5_000)),
        (DELETE, 5, {"topic_names": TOPIC}, DeleteTopicsResponse((ItemError(TOPIC, 89),), -1, 5_000)),
        (GROW, 3, {"name": TOPIC}, CreatePartitionsResponse((ItemError(TOPIC, 89),), -1, 5_000)),
    ],
)
def test_the_controller_throttles_changes_of_metadata(
    api_key: int, strict: int, values: Any, answer: Any
) -> None:
    """By client: an error or a throttle time. Old versions have no error for it."""
    for version in (strict - 1, strict):
        made = plane()
        made.start(api_key, version, validate_only=False, **values)
        asked = made.asked[0].body
        assert (asked.user, asked.client_id, asked.is_lenient) == ("ANONYMOUS", "client", version < strict)
        made.answer(answer)
        response = made.only_response(api_key, version)
        (one,) = getattr(response, {CREATE: "topics", DELETE: "responses", GROW: "results"}[api_key])
        assert int(one.error_code) == 89
        assert response.throttle_time == 5_000 * MS
        assert made.throttle.status()["throttled"] == {"controller_mutation_rate": 1}


async def test_a_throttled_connection_is_muted() -> None:
    """The response is sent at once; the next request waits, requests in flight do not."""
    async with listening(quota_window_num=1) as rig:
        rig.host.image = replace(rig.host.image, client_quotas={ALL: {"producer_byte_rate": 10_000.0}})
        client = await rig.client()
        client.send(PRODUCE, 9, 1, name=TOPIC, index=0, records=bytes(12_000), acks=1)
        (await rig.host.request(0)).answered(data.ProduceResponse((data.ProducePartitionResponse(0, 5),)), ())
        _, answer = await client.answer(PRODUCE, 9)
        assert 150 * MS < answer.throttle_time < 1_000 * MS
        (connection,) = rig.listener._connections
        assert connection._reading.is_paused
        client.send(VERSIONS, 3, 2, client_software_name="a")
        assert (await client.answer(VERSIONS, 3))[0] == 2
        assert not connection._reading.is_paused


async def test_connections_above_the_rate_are_closed_after_a_wait() -> None:
    """Throttled connections are not read; other connections are served."""
    async with listening(quota_window_num=1) as rig:
        rate = {(("ip", "127.0.0.1"),): {"connection_creation_rate": 10.0}}
        rig.host.image = replace(rig.host.image, client_quotas=rate)
        clients = [await rig.client() for _ in range(12)]
        await until(lambda: rig.listener.tallies.accepted == 12)
        for client in clients:
            client.send(VERSIONS, 3, 2, client_software_name="a")
        ends = await asyncio.gather(*(client.ended() for client in clients[-2:]))
        assert ends == [b"", b""]
        for client in clients[:10]:
            assert (await client.answer(VERSIONS, 3))[0] == 2
        assert rig.listener.throttle.status()["throttled"] == {"connection_creation_rate": 2}


def test_automatic_topic_creation_is_throttled() -> None:
    """The controller refuses the topic: Metadata answers that it is unknown, with a throttle time."""
    made = plane()
    made.start(METADATA, 9, name="new", allow_auto_topic_creation=True)
    missing = data.TopicMetadata(UnknownTopicOrPartitionError.code, "new", b"", False, ())
    made.answer(data.MetadataResponse("c", 1, 5, (), (missing,)))
    asked = made.asked[-1].body
    assert (asked.user, asked.client_id, asked.is_lenient) == ("ANONYMOUS", "client", False)
    made.answer(CreateTopicsResponse((CreatedTopic("new", 89),), -1, 1_000))
    made.answer(data.MetadataResponse("c", 1, 5, (), (missing,)))
    response = made.only_response(METADATA, 9)
    assert (int(response.topics[0].error_code), response.throttle_time) == (3, 1_000 * MS)
