"""Wrong requests of Kafka clients, over real sockets (RELIABILITY 3.3; table: docs/TESTING.md).

The well-behaved client of the rig is served over both listeners before and after, and memory is bounded.
"""

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from headrace import LocalCluster
from headrace.protocol import errors
from headrace.services.kafka_listener.entities import MS
from hostile_rig import MIB, TIMEOUT_S, Probe, attack, attacked_cluster, rss_bytes
from kafka_listener_rig import WireClient
from kafka_wire import example_request as example
from kafka_wire import framed, request_frame, request_head, written
from kio.index import load_request_schema
from node_rig import batch, until

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, JOIN_GROUP = 0, 1, 2, 3, 8, 11
FIND_COORDINATOR = 10
LIST_GROUPS, API_VERSIONS, CREATE_TOPICS, EPOCHS = 16, 18, 19, 23
MANY = (100_000).to_bytes(4, "big")
HUGE = b"\xff\xff\xff\xff\x0f"
NAMED = ("", ".", "..", "x" * 250, "a/b", "../../etc", "nul\0", "sp ace", "ümlaut", "new\nline")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with attacked_cluster() as made:
        yield made


def head(api_key: int, version: int, client_length: int = -1, client: bytes = b"") -> bytes:
    """An invalid header."""
    return struct.pack(">hhih", api_key, version, 1, client_length) + client


def with_tags(tags: bytes) -> bytes:
    """ApiVersions v3 with these tags behind its body."""
    return framed(head(API_VERSIONS, 3) + b"\0" + b"\2x\2" + b"1" + tags)


def topics_of(count: bytes) -> bytes:
    """Metadata v9 whose array of topics begins like that."""
    return framed(request_head(METADATA, 9) + count)


# Each closes its connection, and is not executed.
REFUSED: dict[str, bytes] = {
    "01 size 2^31-1": struct.pack(">i", 2**31 - 1),
    "02 size -1": struct.pack(">i", -1),
    "02 size -2^31": struct.pack(">i", -(2**31)),
    "03 size 0": struct.pack(">i", 0),
    "04 size 100 MiB + 1": struct.pack(">i", 100 * MIB + 1),
    "09 TLS": b"\x16\x03\x01\0\xa5\1\0\0\xa1\3\3" + bytes(150),
    "09 HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "11 api -1": framed(head(-1, 0)),
    "11 api 9999": framed(head(9_999, 0)),
    **{f"11 api of servers {key}": framed(head(key, 0) + bytes(60)) for key in
       (4, 5, 6, 7, 52, 53, 54, 56, 57, 58, 59, 62, 63, 67, 70, 73, 82)},
    **{f"12 version {version}": framed(head(METADATA, version) + bytes(9)) for version in (-1, 14, 32_767)},
    "12 removed version": framed(head(FETCH, 3) + bytes(40)),
    "13 header only": framed(request_head(METADATA, 9)),
    "14 client id 32767": framed(head(METADATA, 8, 32_767) + bytes(7)),
    "14 client id not UTF-8": framed(head(METADATA, 8, 2, b"\xff\xfe") + bytes(7)),
    "15 count -2": framed(request_head(METADATA, 8) + b"\xff\xff\xff\xfe\0\0\0"),
    "15 count 2^31-1": framed(request_head(METADATA, 8) + b"\x7f\xff\xff\xff\0\0\0"),
    "15 count beyond the end": framed(request_head(METADATA, 8) + b"\0\0\0\x05\0\1t"),
    "15 nested": framed(request_head(LIST_OFFSETS, 2) + bytes(5) + MANY + (b"\0\0" + MANY) * 300),
    "16 varint of 6 bytes": topics_of(b"\x80\x80\x80\x80\x80\1"),
    "16 varint of 2^32": topics_of(HUGE),
    "16 varint without end": topics_of(b"\xff"),
    "17 2^31 tags": with_tags(b"\x80\x80\x80\x80\x08"),
    "17 tag beyond the end": with_tags(b"\1\5\x7fab"),
    "17 tag without end": with_tags(b"\1\5"),
}  # fmt: skip


@pytest.mark.parametrize("pieces", [1, 3])
async def test_malformed_request_closes_its_connection(probe: Probe, pieces: int) -> None:
    """Rows 1 to 4, 9 and 11 to 17, in one piece and byte by byte."""
    for name, bad in REFUSED.items():
        client = await WireClient.to(probe.kafka[1])
        for at in range(pieces - 1):
            client.write(bad[at : at + 1])
            await asyncio.sleep(0)
        client.write(bad[pieces - 1 :])
        async with asyncio.timeout(TIMEOUT_S):
            assert await client.ended() == b"", name
        client.close()


ODD: dict[str, bytes] = {
    "12 ApiVersions of tomorrow": framed(head(API_VERSIONS, 99) + b"\xff\xff"),
    "14 no client id": framed(head(API_VERSIONS, 0)),
    "14 client id -2, which is none to Kafka, too": framed(head(API_VERSIONS, 0, -2)),
    "17 the same tag twice": with_tags(b"\2\5\1a\5\1b"),
    "18 garbage behind the body": with_tags(b"\0garbage"),
}


@pytest.mark.parametrize("name", ODD)
async def test_unusual_request_is_answered(probe: Probe, name: str) -> None:
    """Rows 12, 14, 17 and 18: as in Kafka, and the connection stays open."""
    client = await WireClient.to(probe.kafka[1])
    for _ in range(2):
        client.write(ODD[name])
        version = 3 if name[:2] in ("17", "18") else 0
        _, answer = await client.answer(API_VERSIONS, version)
        assert int(answer.error_code) == (35 if name[:2] == "12" else 0)
    client.close()


def listener_of(cluster: LocalCluster) -> dict[str, Any]:
    """The listener's own metrics."""
    facts: dict[str, Any] = cluster.status()["nodes"][0]["kafka"]
    return facts


async def test_half_a_request_has_no_effect(probe: Probe, cluster: LocalCluster) -> None:
    """Row 6: half a header then FIN, half a body then RST; nothing is written, no memory is held."""
    body = example(
        PRODUCE, 9, name=probe.topic, index=0, acks=1, records=batch(b"never"), transactional_id=None
    )
    whole = framed(request_frame(PRODUCE, 9, body))
    for size in (2, 7, 12, len(whole) // 2, len(whole) - 1):
        for is_reset in (False, True):
            client = await WireClient.to(probe.kafka[1])
            client.write(whole[:size])
            await client.writer.drain()
            if not is_reset:
                client.writer.write_eof()
                assert await client.ended() == b""
            client.close()
    await until(lambda: listener_of(cluster)["held_request_bytes"] == 0)


async def test_silent_connections_hold_little_memory(probe: Probe, cluster: LocalCluster) -> None:
    """Rows 4, 7 and 8: 400 connections announce 100 MiB each and trickle, 400 send nothing."""
    before = rss_bytes()
    slow = [await WireClient.to(probe.kafka[1]) for _ in range(400)]
    silent = [await WireClient.to(probe.kafka[1]) for _ in range(400)]
    for client in slow:
        client.write(struct.pack(">i", 100 * MIB) + b"\0")
    await probe.check()
    for client in slow:
        client.write(b"\0")
    await probe.check()
    assert rss_bytes() - before < 100 * MIB
    for client in slow + silent:
        client.close()
    await until(lambda: listener_of(cluster)["connections"] == 0)
    assert listener_of(cluster)["held_request_bytes"] == 0


async def test_client_that_does_not_read_is_not_read_from(probe: Probe, cluster: LocalCluster) -> None:
    """Rows 42 and 43: ten thousand requests without reading a response."""
    before = rss_bytes()
    client = await WireClient.to(probe.kafka[1])
    client.writer.transport.pause_reading()
    question = framed(request_frame(API_VERSIONS, 3, example(API_VERSIONS, 3, client_software_name="x")))
    for _ in range(10):
        client.write(question * 1_000)
    await probe.check()
    facts = listener_of(cluster)
    assert facts["pending_response_bytes"] < 2 * MIB
    assert facts["held_request_bytes"] < 2 * MIB
    assert rss_bytes() - before < 50 * MIB
    client.writer.transport.resume_reading()
    for _ in range(10_000):
        await client.answer(API_VERSIONS, 3)
    client.close()


async def test_two_thousand_short_connections(probe: Probe, cluster: LocalCluster) -> None:
    """Row 45: each with a request whose response it does not read."""
    question = framed(request_frame(METADATA, 9, example(METADATA, 9, name=probe.topic)))
    for _ in range(20):
        clients = [await WireClient.to(probe.kafka[1]) for _ in range(100)]
        for client in clients:
            client.write(question)
            client.close()
    await until(lambda: listener_of(cluster)["connections"] == 0)


async def test_invalid_batches_with_acks_0_close_the_connection(probe: Probe) -> None:
    """Row 44: acks=0 has no other way to report an error."""
    fields = {"name": probe.topic, "index": 0, "acks": 0, "transactional_id": None}
    bad = framed(request_frame(PRODUCE, 9, example(PRODUCE, 9, records=b"no batch", **fields)))
    for _ in range(20):
        client = await WireClient.to(probe.kafka[1])
        client.write(bad * 200)
        assert await client.ended() == b""
        client.close()


async def test_endless_fetches_end_with_their_connections(probe: Probe, cluster: LocalCluster) -> None:
    """Row 33: hundreds of clients wait for more bytes than ever arrive."""
    forever = {"max_wait": (2**31 - 1) * MS, "min_bytes": 2**31 - 1, "max_bytes": 2**31 - 1}
    where = {"topic": probe.topic, "partition": 0, "session_epoch": -1, "isolation_level": 0}
    body = example(FETCH, 11, fetch_offset=0, current_leader_epoch=-1, **forever, **where)
    question = framed(request_frame(FETCH, 11, body))
    clients = [await WireClient.to(probe.kafka[1]) for _ in range(300)]
    for client in clients:
        client.write(question * 20)
    await until(lambda: parked(cluster) >= len(clients))
    await probe.check()
    for client in clients:
        client.close()
    await until(lambda: parked(cluster) == 0)


def parked(cluster: LocalCluster) -> int:
    """The number of requests that wait in the node."""
    return int(cluster.status()["nodes"][0]["parked_requests"])


# --- well-formed and absurd ------------------------------------------------------------------------------


async def test_reads_out_of_range_are_refused(probe: Probe) -> None:
    """Rows 32, 34 and 41: offsets, sizes, times, epochs and sessions that cannot exist; a client that
    pretends to be a replica is served as a client."""
    far = 2**63 - 1
    plain = {"partition": 0, "session_epoch": -1, "isolation_level": 0, "current_leader_epoch": -1}

    async def fetch(**values: Any) -> tuple[int, Any]:
        values = {"topic": probe.topic, "fetch_offset": 0, "max_bytes": MIB, **plain, **values}
        answer = await probe.ask_kafka(FETCH, 11, **{"partition_max_bytes": MIB, **values})
        partitions = answer.responses[0].partitions if answer.responses else (None,)
        return int(answer.error_code), partitions[0]

    out_of_range = errors.OffsetOutOfRangeError.code
    for offset in (-5, far):
        assert int((await fetch(fetch_offset=offset))[1].error_code) == out_of_range
    for size in (0, -1, 2**31 - 1):
        for name in ("max_bytes", "partition_max_bytes"):
            assert int((await fetch(**{name: size}))[1].error_code) == 0
    for session, epoch, code in ((77, 5, 70), (0, 9, 70), (-1, -7, 70)):
        assert (await fetch(session_id=session, session_epoch=epoch))[0] == code
    _, as_replica = await fetch(replica_id=1)
    assert as_replica.records, "the records that a client may read"
    for epoch, code in ((far % 2**31, errors.UnknownLeaderEpochError.code), (-1, 0)):
        assert int((await fetch(current_leader_epoch=epoch))[1].error_code) == code
    for timestamp in (-7, -(2**63)):
        asked = {
            "name": probe.topic,
            "partition_index": 0,
            "current_leader_epoch": -1,
            "isolation_level": 0,
        }
        listed = await probe.ask_kafka(LIST_OFFSETS, 7, timestamp=timestamp, **asked)
        code = int(listed.topics[0].partitions[0].error_code)
        assert code in (errors.InvalidRequestError.code, errors.UnsupportedVersionError.code), timestamp
    found = await probe.ask_kafka(EPOCHS, 4, topic=probe.topic, partition=0, current_leader_epoch=99)
    assert int(found.topics[0].partitions[0].error_code) == errors.UnknownLeaderEpochError.code


async def test_invalid_topics_are_refused(probe: Probe) -> None:
    """Rows 31 and 37: names, partitions, replicas, configs; nothing is created on any disk."""
    made: dict[str, Any] = {"assignments": (), "configs": (), "num_partitions": 1, "replication_factor": 1}
    table: list[tuple[dict[str, Any], type[errors.KafkaError]]] = [
        *(({"name": name}, errors.InvalidTopicError) for name in NAMED),
        ({"num_partitions": 10**6}, errors.InvalidPartitionsError),
        ({"num_partitions": 0}, errors.InvalidPartitionsError),
        ({"replication_factor": 32_767}, errors.InvalidReplicationFactorError),
        ({"replication_factor": 0}, errors.InvalidReplicationFactorError),
    ]
    before = {topic.name for topic in (await everything(probe)).topics}
    schema = load_request_schema(CREATE_TOPICS, 7)
    for values, expected in table:
        request = example(CREATE_TOPICS, 7)
        (topic,) = request.topics
        topic = type(topic)(**{"name": "p", **made, **values})
        request = schema(topics=(topic,), timeout=60_000 * MS, validate_only=False)
        client = await WireClient.to(probe.kafka[1])
        client.write(framed(request_head(CREATE_TOPICS, 7) + written(request)))
        _, answer = await client.answer(CREATE_TOPICS, 7)
        client.close()
        assert int(answer.topics[0].error_code) == expected.code, values
    assert {topic.name for topic in (await everything(probe)).topics} == before


async def everything(probe: Probe) -> Any:
    """The metadata of all topics."""
    client = await WireClient.to(probe.kafka[1])
    client.write(topics_of(b"\0\0\0\0\0"))
    _, answer = await client.answer(METADATA, 9)
    client.close()
    return answer


async def test_auto_creation_refuses_illegal_names(probe: Probe) -> None:
    """Row 31: Metadata creates topics on request, none of an illegal name."""
    for name in NAMED:
        answer = await probe.ask_kafka(METADATA, 9, name=name, allow_auto_topic_creation=True)
        assert int(answer.topics[0].error_code) in (3, 17), name
    assert not {topic.name for topic in (await everything(probe)).topics} & set(NAMED)


async def test_client_text_cannot_forge_log_lines(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Row 50: a client's text stays on its line, without payload."""

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    async with attack(cluster) as probe:
        name = b"x\nERROR the node is dead\x1b[2J"
        bad = framed(head(METADATA, 8, len(name), name) + b"\x7f\xff\xff\xffSECRET")
        while not any("dead" in line for line in said()):  # one line per second, for any connection
            client = await WireClient.to(probe.kafka[1])
            client.write(bad)
            await client.ended()
            client.close()
    assert any("closing the connection" in line and "x\\nERROR" in line for line in said()), said()
    assert not any("\n" in line or "\x1b" in line or "SECRET" in line for line in said())
