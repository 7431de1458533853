"""Every served version of every api: requests are decoded and responses encoded as by kio."""

import dataclasses
from typing import Any

import pytest
from headrace.protocol.errors import InvalidRequestError
from headrace.protocol.metadata.image import MetadataImage
from headrace.services.kafka_listener.calls import Call, KafkaApi
from headrace.services.kafka_listener.codes import substitutes
from headrace.services.kafka_listener.entities import Records, layout
from headrace.services.kafka_listener.framing import read_header
from headrace.services.kafka_listener.served import SERVED
from headrace.services.kafka_listener.skimming import no_tags
from kafka_calls import FakePlane
from kafka_wire import answer_of, decoded, example_request, request_frame

# kio cannot decode the time -1 (no open transaction, no token), which Kafka clients expect; tests with real
# clients do.
UNREADABLE = {38, 39, 40, 65}
every_api = pytest.mark.parametrize("api", SERVED.values(), ids=[api.name for api in SERVED.values()])


def versions_of(api: KafkaApi) -> range:
    """The served versions of an api."""
    return range(api.low, api.high + 1)


def call_of(api: KafkaApi, version: int, plane: FakePlane, **values: Any) -> Call:
    """An example of a request, as received."""
    return plane.call(api, version, example_request(api.key, version, **values))


@every_api
def test_requests_are_decoded(api: KafkaApi) -> None:
    """With their headers; a request that is cut anywhere is refused."""
    for version in versions_of(api):
        check_read_whole(api, version)


def check_read_whole(api: KafkaApi, version: int) -> None:
    asked = example_request(api.key, version)
    frame = memoryview(request_frame(api.key, version, asked))
    shape = layout(api.key, version)
    start = read_header(frame).end
    start = no_tags(frame, start) if shape.is_flexible else start
    shape = shape._replace(read_hot=None)  # the hand-written decoder has a test of its own
    assert decoded(shape, frame, start) == asked
    assert shape.skim(frame, start)[:2] == (frame, len(frame))
    for end in range(start, len(frame)):
        with pytest.raises(InvalidRequestError):
            decoded(shape, frame[:end], start)


@every_api
def test_every_response_can_carry_an_error(api: KafkaApi) -> None:
    """The error response of a request has the error code somewhere."""
    for version in versions_of(api):
        check_error(api, version)


def check_error(api: KafkaApi, version: int) -> None:
    plane = FakePlane(MetadataImage())
    call = call_of(api, version, plane)
    call.answer(api.failed(call, 89, "too much"))
    (sent,) = plane.sent
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    if api.key in UNREADABLE:
        assert (89).to_bytes(2, "big") in sent[8:]
        return
    correlation_id, answer = answer_of(api.key, version, sent[4:])
    assert correlation_id == 7
    if hasattr(answer, "error_code") or api.name not in ("Metadata", "DescribeLogDirs"):  # no field for it
        assert substitutes(api.key, version).get(89, 89) in codes(answer)


@every_api
def test_handler_forwards_or_answers(api: KafkaApi) -> None:
    """No version of a request breaks its handler, even on a node without topics."""
    for version in versions_of(api):
        plane = FakePlane(MetadataImage())
        call_of(api, version, plane).start()
        assert len(plane.asked) + len(plane.sent) + plane.is_hung_up == 1, version
        for sent in plane.sent if api.key not in UNREADABLE else ():
            answer_of(api.key, version, sent[4:])


def codes(answer: Any) -> set[int]:
    """All error codes in a response."""
    found: set[int] = set()
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.metadata.get("kafka_type") == "error_code":
            found.add(int(value))
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                found |= codes(item)
    return found


def test_record_batches_are_not_copied() -> None:
    """The batches of a response are the buffers of the log."""
    batches = [memoryview(b"first batch"), memoryview(b"second")]
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 9,
        "aborted_transactions": None,
        "records": Records(batches),
    }
    answer = {
        "error_code": 0,
        "responses": [{"topic": "t", "topic_id": bytes(16), "partitions": [partition]}],
    }
    for version in (4, 11, 12, 18):
        parts = layout(1, version).encode(7, answer)
        assert [part for part in parts if isinstance(part, memoryview)] == batches
        assert all(
            a is b for a, b in zip(batches, [p for p in parts if isinstance(p, memoryview)], strict=True)
        )
        _, read = answer_of(1, version, b"".join(map(bytes, parts))[4:])
        assert read.responses[0].partitions[0].records == b"first batchsecond"


def test_advertised_versions_are_served() -> None:
    """Produce begins at 0 for librdkafka."""
    plane = FakePlane(MetadataImage())
    call_of(SERVED[18], 3, plane, client_software_name="a").start()
    _, answer = answer_of(18, 3, plane.sent[0][4:])
    response = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert response.keys() == SERVED.keys()
    assert response[0] == (0, 13)
    assert all(response[key] == (api.low, api.high) for key, api in SERVED.items() if key)
