"""Invalid record batches, over real sockets and both listeners: each is refused with its error.

RELIABILITY 3.3, rows 23 to 30.
"""

import asyncio
import functools
from collections.abc import Iterator
from typing import Any, Self

import batch_bytes as by_hand
import pytest
from headrace import LocalCluster
from headrace.protocol import errors
from headrace.protocol.messages import control, registry
from headrace.protocol.messages import data as data_messages
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.protocol.transport.dealer_io import Connection
from hostile_rig import MIB, TIMEOUT_S, Probe, attacked_cluster
from kafka_listener_rig import WireClient
from kafka_wire import example_request, framed, request_frame
from node_rig import batch

PLANES = ["zeromq", "kafka"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with attacked_cluster() as made:
        yield made


def record(**facts: int) -> bytes:
    """One record without a key; the facts may be wrong."""
    return by_hand.record(key=None, **facts)


def forged(records: bytes, *, base_ms: int = 1_700_000_000_000, **facts: Any) -> bytes:
    """A batch with any header fields, and a valid CRC unless another is given."""
    return by_hand.batch(records, base_timestamp=base_ms, max_timestamp=base_ms, **facts)


@pytest.fixture(params=[c for c in Compression if c])
def bomb(request: pytest.FixtureRequest) -> bytes:
    """800 MiB in a batch of up to 37 MiB (snappy), made before the probe measures the memory in use."""
    return _bomb(request.param)


@functools.cache
def _bomb(compression: Compression) -> bytes:
    builder = active_codec().builder(max_bytes=1 << 30, compression=compression)
    for _ in range(8):
        builder.append(1_700_000_000_000, None, bytes(100 * MIB))
    return builder.build()


R = record()
CORRUPT, INVALID = errors.CorruptMessageError, errors.InvalidRecordError
BAD_BATCHES: dict[str, tuple[bytes, tuple[type[errors.KafkaError], ...]]] = {
    "23 no bytes": (b"", (CORRUPT,)),
    "23 one byte": (b"\0", (CORRUPT,)),
    "23 length 0": (forged(R, length=0), (CORRUPT,)),
    "23 length -1": (forged(R, length=-1), (CORRUPT,)),
    "23 length 2^31-1": (forged(R, length=2**31 - 1), (CORRUPT,)),
    "23 length below a header": (forged(R, length=20), (CORRUPT, INVALID)),
    "24 wrong crc": (forged(R, crc=1), (CORRUPT,)),
    "24 count says two": (forged(R, count=2), (INVALID,)),
    "24 last offset delta": (forged(R, last_delta=5), (INVALID,)),
    "24 count 0": (forged(b"", count=0, last_delta=0), (INVALID,)),
    "24 count 2^31-1": (forged(R, count=2**31 - 1), (INVALID,)),
    "24 count -1": (forged(R, count=-1, last_delta=0), (INVALID,)),
    "25 magic 0": (forged(R, magic=0), (INVALID,)),
    "25 magic 1": (forged(R, magic=1), (INVALID,)),
    "25 magic 3": (forged(R, magic=3), (INVALID,)),
    "25 two batches": (forged(R) * 2, (INVALID,)),
    "25 control batch": (forged(R, attributes=0x20), (INVALID,)),
    "25 transactional": (forged(R, attributes=0x10), (INVALID,)),
    "25 producer id": (forged(R, producer=(7, -1, -1)), (INVALID,)),
    "25 delete horizon": (forged(R, attributes=0x40), (INVALID,)),
    "26 record length -1": (forged(record(length=-1)), (INVALID,)),
    "26 record length 2^31": (forged(record(length=2**31)), (INVALID,)),
    "26 varint without end": (forged(b"\xff" * 20), (INVALID,)),
    "26 headers count -1": (forged(R[:-1] + by_hand.varint(-1)), (INVALID,)),
    "26 headers count 2^31-1": (forged(by_hand.varint(40) + R[1:-1] + by_hand.varint(2**31 - 1)), (INVALID,)),
    "26 garbage behind the records": (forged(R + b"more"), (INVALID,)),
    "27 gzip of garbage": (forged(R, attributes=1), (CORRUPT, INVALID)),
    "27 snappy of garbage": (
        forged(b"\x82SNAPPY\0" + bytes(8) + b"\x7f\xff\xff\xff", attributes=2),
        (CORRUPT, INVALID),
    ),
    "27 lz4 of garbage": (forged(R, attributes=3), (CORRUPT, INVALID)),
    "27 zstd of garbage": (forged(R, attributes=4), (CORRUPT, INVALID)),
    "28 codec 5": (forged(R, attributes=5), (errors.UnsupportedCompressionTypeError,)),
    "28 codec 7": (forged(R, attributes=7), (errors.UnsupportedCompressionTypeError,)),
    "29 timestamp -2": (forged(R, base_ms=-2), (errors.InvalidTimestampError,)),
    "29 timestamp 2^63-1": (forged(R, base_ms=2**63 - 1), (errors.InvalidTimestampError,)),
    "29 timestamps overflow": (forged(record(timestamp_delta=9), base_ms=2**63 - 1), (INVALID,)),
    "29 LogAppendTime by the client": (forged(R, attributes=8), (errors.InvalidTimestampError,)),
    "too large": (batch(bytes(2 * MIB)), (errors.MessageTooLargeError,)),
}


class Sender:
    """Produces over one listener: batches for partition 0 of a topic, in one request."""

    def __init__(self, probe: Probe, plane: str) -> None:
        self._probe, self._plane = probe, plane

    async def __aenter__(self) -> Self:
        if self._plane == "kafka":
            self._wire = await WireClient.to(self._probe.kafka[1])
        else:
            self._own = await Connection.open(*self._probe.node, client_id="bad", timeout_s=TIMEOUT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        (self._wire if self._plane == "kafka" else self._own).close()

    async def send(self, topic: str, topic_id: bytes, *batches: bytes) -> list[tuple[int, int]]:
        """Error code and base offset of each."""
        if self._plane == "kafka":
            body = example_request(0, 9, acks=1, transactional_id=None)
            (entry,) = body.topic_data
            (partition,) = entry.partition_data
            parts = tuple(type(partition)(index=0, records=data) for data in batches)
            data = type(entry)(name=topic, partition_data=parts)
            body = type(body)(transactional_id=None, acks=1, timeout=body.timeout, topic_data=(data,))
            self._wire.write(framed(request_frame(0, 9, body)))
            _, answer = await self._wire.answer(0, 9)
            results = answer.responses[0].partition_responses
        else:
            entries = tuple(data_messages.ProducePartition(topic_id, 0) for _ in batches)
            request = data_messages.ProduceRequest(1, 1_000, entries)
            response = await self._own.request(registry.PRODUCE, request, batches, timeout_s=TIMEOUT_S)
            results = response.body.partitions
        return [(int(each.error_code), each.base_offset) for each in results]


@pytest.mark.parametrize("plane", PLANES)
async def test_every_invalid_batch_gets_its_error(probe: Probe, plane: str) -> None:
    """Beside a valid batch in the same request, which is appended."""
    topic = f"batches-{plane}"
    spec = control.NewTopicSpec(topic, 1, 1)
    made = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
    topic_id = made.body.topics[0].topic_id
    async with Sender(probe, plane) as sender:
        for number, (name, (bad, expected)) in enumerate(BAD_BATCHES.items()):
            (code, _), taken = await sender.send(topic, topic_id, bad, batch(b"good"))
            assert code in [cls.code for cls in expected], (name, code)
            assert taken == (0, number), (name, taken)


@pytest.mark.parametrize("plane", PLANES)
async def test_decompression_bombs_are_refused(probe: Probe, bomb: bytes, plane: str) -> None:
    """Row 27: small on the wire, 800 MiB when decompressed, several at once."""

    async def one() -> int:
        async with Sender(probe, plane) as sender:
            ((code, _),) = await sender.send(probe.topic, probe.topic_id, bomb)
            return code

    codes = set(await asyncio.gather(*(one() for _ in range(4))))
    assert codes <= {CORRUPT.code, INVALID.code, errors.MessageTooLargeError.code}
