"""murmur2 as Java and others have it."""

from random import Random

import pytest
from headrace.protocol.records.codec import pick_codec
from kafka.partitioner.default import murmur2 as kafka_python_murmur2


@pytest.mark.parametrize("name", ["python", "compiled"])
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_javas(name: str, key: bytes, expected: int) -> None:
    """Vectors of Kafka's UtilsTest; the same key must land on the same partition from any client."""
    assert pick_codec(name).murmur2(key) == expected & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["python", "compiled"])
def test_murmur2_equals_kafka_pythons(name: str) -> None:
    """Every length of tail, and bytes with the high bit set."""
    random = Random(1)
    for length in range(40):
        key = random.randbytes(length)
        assert pick_codec(name).murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF, key
