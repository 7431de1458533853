"""Cleaned batches, read by Apache Kafka's dump tool."""

import re
from pathlib import Path

import kafka_oracle
import pytest
from beside.java_io import JavaTools
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.header import Compression, read_batch_header

pytestmark = pytest.mark.usefixtures("apache_kafka")
NOW, DAY = 1_700_000_000_000, 86_400_000
# the tool does not print null keys and values
RECORD = re.compile(
    r"\| offset: (\d+) CreateTime: (\d+) .*?\](?: key: (\S+))?(?: payload: (\S+))?$", re.MULTILINE
)


def batch(base_offset: int, compression: Compression, round_number: int) -> bytes:
    """Twenty records under ten keys; one in seven is a tombstone, one has no key."""
    builder = pick_codec("compiled").builder(
        max_bytes=1 << 20, compression=compression, producer_id=5, producer_epoch=1, base_sequence=base_offset
    )
    for number in range(20):
        key = None if number == 3 else b"%s-%d" % (compression.name.encode(), (number + round_number) % 10)
        value = None if number % 7 == round_number % 7 else b"value-%d-%d" % (round_number, number)
        builder.append(NOW + base_offset + number, key, value, [("trace", b"x")] if number % 2 else [])
    return base_offset.to_bytes(8, "big") + builder.build()[8:]


@pytest.mark.parametrize("name", ["python", "compiled"])
def test_kafkas_dump_tool_reads_cleaned_batches(name: str, tmp_path: Path, java_tools: JavaTools) -> None:
    """Every compression, delete horizons in the future and in the past, batches without records."""
    codec = pick_codec(name)
    batches = [
        batch(20 * number, compression, number // len(Compression))
        for number, compression in enumerate(list(Compression) * 3)
    ]
    offsets = codec.offset_map(24_000)
    assert all(offsets.add_batch(each) for each in batches[:-3])
    for pass_number, now_ms in enumerate((NOW, NOW + DAY)):
        left = []
        for each in batches:
            cleaned = codec.clean_batch(each, offsets, now_ms=now_ms, delete_retention_ms=DAY)
            empty = codec.empty_batch(read_batch_header(each))
            left.append(empty if cleaned.data is None else bytes(cleaned.data))
        segment = tmp_path / f"{pass_number}" / "00000000000000000000.log"
        segment.parent.mkdir()
        segment.write_bytes(b"".join(left))
        printed = kafka_oracle.dump_log(segment, run=java_tools.output)
        assert "isvalid: false" not in printed
        assert printed.count("isvalid: true") == len(batches)
        expected = [
            (
                str(record.offset),
                str(record.timestamp),
                (record.key or b"").decode(),
                (record.value or b"").decode(),
            )
            for each in left
            for record in codec.decode(each)
        ]
        assert RECORD.findall(printed) == expected
        assert printed.count("deleteHorizonMs: OptionalLong[") == sum(
            read_batch_header(each).delete_horizon_ms is not None for each in left
        )
        assert printed.count("count: 0 ") == sum(not read_batch_header(each).record_count for each in left)
        batches = left
    assert any(not read_batch_header(each).record_count for each in batches)
    assert len(expected) < 20 * len(batches)
