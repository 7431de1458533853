"""Produce, Fetch and ListOffsets: topic names and ids, errors before the node is asked, leader hints."""

import importlib
import uuid
from typing import Any

import pytest
from headrace.protocol.errors import RequestTimedOutError, ThrottlingQuotaExceededError
from headrace.protocol.messages.data import (
    FetchPartitionResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ProducePartitionResponse,
    ProduceResponse,
)
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.services.kafka_listener.codes import substitutes
from headrace.services.kafka_listener.entities import MS, layout
from kafka_calls import FakePlane
from kafka_listener_rig import TOPIC, TOPIC_ID, small_image
from kafka_wire import answer_of
from kio.index import load_request_schema
from node_rig import batch

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2


def named(version: int, by_id_from: int, name: str = TOPIC, topic_id: bytes = TOPIC_ID) -> dict[str, Any]:
    """A topic as a version names it."""
    return {"topic_id": uuid.UUID(bytes=topic_id)} if version >= by_id_from else {"name": name, "topic": name}


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_produce_names_the_partition(version: int) -> None:
    """By topic name or id, with the other fields of the version."""
    plane = FakePlane()
    values = named(version, 13) | {"index": 0, "acks": -1, "records": b"batch", "transactional_id": None}
    plane.start(PRODUCE, version, **values)
    (asked,) = plane.asked
    assert [bytes(frame) for frame in asked.frames] == [b"batch"]
    assert (asked.body.acks, asked.body.timeout_ms) == (-1, 9)
    assert asked.body.adds_partitions == (version >= 12)
    assert [(each.topic_id, each.partition) for each in asked.body.partitions] == [(TOPIC_ID, 0)]
    plane.answer(ProduceResponse((ProducePartitionResponse(0, 41, 5, 2),)))
    ((response,),) = [topic.partition_responses for topic in plane.only_response(PRODUCE, version).responses]
    assert (response.index, int(response.error_code), response.base_offset) == (0, 0, 41)
    assert response.log_append_time.timestamp() == 0.005


@pytest.mark.parametrize(("version", "code"), [(9, 3), (13, 100)])
def test_unknown_topics_fail_alone(version: int, code: int) -> None:
    """The response has all topics in the order of the request."""
    schema: Any = load_request_schema(PRODUCE, version)
    plane = FakePlane()
    m = importlib.import_module(f"kio.schema.produce.v{version}.request")

    def topic(name: str, topic_id: bytes) -> Any:
        given = {k: v for k, v in named(version, 13, name, topic_id).items() if k != "topic"}
        data = tuple(m.PartitionProduceData(index=number, records=b"b%d" % number) for number in range(2))
        return m.TopicProduceData(**given, partition_data=data)

    topics = (topic("no", b"n" * 16), topic(TOPIC, TOPIC_ID), topic("none", b"m" * 16))
    body = schema(transactional_id=None, acks=1, timeout=5 * MS, topic_data=topics)
    plane.start(PRODUCE, version, body)
    assert [each.partition for each in plane.asked[0].body.partitions] == [0, 1]
    plane.answer(ProduceResponse((ProducePartitionResponse(0, 7), ProducePartitionResponse(0, 8))))
    response = plane.only_response(PRODUCE, version).responses
    found = [[(int(p.error_code), p.base_offset) for p in each.partition_responses] for each in response]
    assert found == [[(code, -1), (code, -1)], [(0, 7), (0, 8)], [(code, -1), (code, -1)]]


def test_a_wrong_leader_names_the_current_one() -> None:
    """With the address of the listener that the client uses (KIP-951)."""
    plane = FakePlane(small_image(nodes=2))
    plane.start(PRODUCE, 10, name=TOPIC, index=0, acks=1, transactional_id=None)
    plane.answer(ProduceResponse((ProducePartitionResponse(6, leader_id=2, leader_epoch=9),)))
    response = plane.only_response(PRODUCE, 10)
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 9)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(2, "host", 9_002)]


@pytest.mark.parametrize(
    ("version", "code", "has_hint"),
    [(9, 6, False), (10, 6, True), (10, 74, True), (10, 75, False), (10, 19, False), (12, 3, False)],
)
def test_leader_hints_are_given_where_clients_read_them(version: int, code: int, has_hint: bool) -> None:
    """To clients with another leader or an older epoch, in versions that have the field."""
    plane = FakePlane(small_image(nodes=2))
    plane.start(PRODUCE, version, name=TOPIC, index=0, acks=1, transactional_id=None)
    plane.answer(ProduceResponse((ProducePartitionResponse(code, leader_id=2, leader_epoch=9),)))
    response = plane.only_response(PRODUCE, version)
    part = response.responses[0].partition_responses[0]
    assert int(part.error_code) == code
    if version >= 10:
        leader = (part.current_leader.leader_id, part.current_leader.leader_epoch)
        assert leader == ((2, 9) if has_hint else (-1, -1))
        assert len(response.node_endpoints) == has_hint


@pytest.mark.parametrize(("version", "may_follow"), [(10, False), (11, True), (18, True)])
def test_followers_serve_consumers_from_version_11_on(version: int, may_follow: bool) -> None:
    """With or without a rack (KIP-392)."""
    plane = FakePlane()
    values = named(version, 13) | {"partition": 0, "session_epoch": -1, "session_id": 0}
    plane.start(FETCH, version, **values)
    assert plane.asked[0].body.may_follow == may_follow


def test_old_producers_may_not_compress_with_zstd() -> None:
    """Consumers of that version could not read it; the node is not asked."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=Compression.ZSTD)
    builder.append(1, None, b"x" * 100)
    compressed = builder.build()
    for version, records, code in (
        (6, compressed, 76),
        (7, compressed, 0),
        (6, batch(b"x"), 0),
        (6, None, 87),
    ):
        plane = FakePlane()
        plane.start(PRODUCE, version, name=TOPIC, index=0, acks=1, transactional_id=None, records=records)
        (asked,) = plane.asked
        assert len(asked.frames) == (code == 0)
        plane.answer(ProduceResponse((ProducePartitionResponse(0),) * len(asked.frames)))
        response = plane.only_response(PRODUCE, version).responses[0].partition_responses[0]
        assert int(response.error_code) == code


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_an_unknown_outcome_has_a_retriable_code(outcome: str) -> None:
    """No room to wait, before the append or after it: a code that all clients take for `maybe appended`."""
    plane = FakePlane()
    plane.start(PRODUCE, 9, name=TOPIC, index=0, acks=-1, transactional_id=None, records=batch(b"x"))
    entry = ProducePartitionResponse(RequestTimedOutError.code)
    refused = ThrottlingQuotaExceededError("full")
    plane.answer(refused if outcome == "refused" else ProduceResponse((entry,)))
    response = plane.only_response(PRODUCE, 9).responses[0].partition_responses[0]
    assert int(response.error_code) == RequestTimedOutError.code


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_fetch_responses(version: int) -> None:
    """Batches, aborted transactions for read_committed, the preferred replica, and diverging epochs."""
    plane = FakePlane(small_image(nodes=2))
    values = named(version, 13) | {"partition": 0, "session_epoch": -1, "session_id": 0, "isolation_level": 1}
    plane.start(FETCH, version, forgotten_topics_data=(), **values)
    (asked,) = plane.asked
    entry = asked.body.partitions[0]
    assert (entry.topic_id, entry.partition, entry.fetch_offset, entry.max_bytes) == (TOPIC_ID, 0, 3, 3)
    assert asked.body.rack == ("text" if version >= 11 else "")
    partition = FetchPartitionResponse(
        0, 9, 8, 1, 2, preferred_read_replica=2, aborted=((5, 6),), diverging_epoch=4, diverging_end_offset=7
    )
    plane.answer(FetchResponse((partition,)), [b"one", b"two"])
    response = plane.only_response(FETCH, version).responses[0].partitions[0]
    assert (response.high_watermark, response.last_stable_offset, response.records) == (9, 8, b"onetwo")
    assert [(each.producer_id, each.first_offset) for each in response.aborted_transactions] == [(5, 6)]
    if version >= 11:
        assert response.preferred_read_replica == 2
    if version >= 12:
        assert (response.diverging_epoch.epoch, response.diverging_epoch.end_offset) == (4, 7)


@pytest.mark.parametrize(
    ("asked_time", "time", "offset"),
    [(-1, -1, 5), (-2, -2, 5), (-3, -3, 5), (77, 77, 5), (-4, -2, 5), (-5, -5, -1)],
)
def test_list_offsets_by_timestamp(asked_time: int, time: int, offset: int) -> None:
    """Without tiered storage the earliest local offset is the earliest offset."""
    plane = FakePlane()
    plane.start(LIST_OFFSETS, 9, name=TOPIC, partition_index=0, timestamp=asked_time, isolation_level=1)
    entry = plane.asked[0].body.partitions[0]
    assert (entry.topic_id, entry.timestamp, plane.asked[0].body.isolation) == (TOPIC_ID, time, 1)
    code = 42 if asked_time == -5 else 0
    plane.answer(ListOffsetsResponse((ListOffsetsPartitionResponse(code, 10, 5, 2),)))
    response = plane.only_response(LIST_OFFSETS, 9).topics[0].partitions[0]
    assert (int(response.error_code), response.offset) == (0, offset)


def test_older_versions_get_their_error_codes() -> None:
    """Anywhere in the response."""
    assert substitutes(2, 4) == {78: 5}
    assert substitutes(2, 5) == {}
    assert substitutes(28, 5) == {90: 47}  # Kafka has no other word for it there
    answer = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 78}]}]}
    for version, code in ((4, 5), (5, 78)):
        frame = b"".join(map(bytes, layout(2, version).encode(1, answer)))
        response = answer_of(2, version, frame[4:])[1]
        assert int(response.topics[0].partitions[0].error_code) == code
