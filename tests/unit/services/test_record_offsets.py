"""The JSON of kafka-delete-records.sh."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from headrace.services.record_offsets import offsets_of


def test_partitions_and_offsets() -> None:
    """The version may be left out; -1 is the high watermark."""
    entries = '{"topic": "a", "partition": 0, "offset": 5}, {"topic": "a", "partition": 1, "offset": -1}'
    text = f'{{"partitions": [{entries}]%s}}'
    wanted = {TopicPartition("a", 0): 5, TopicPartition("a", 1): -1}
    assert offsets_of(text % "") == offsets_of(text % ', "version": 1') == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "5",
        '{"partitions": []}',
        '{"partitions": [{"topic": "a", "partition": 0}]}',
        '{"partitions": [{"topic": "a", "partition": -1, "offset": 1}]}',
        '{"partitions": [{"topic": 5, "partition": 0, "offset": 1}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "offset": "1"}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "offset": true}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "offset": 9223372036854775808}]}',
        '{"version": 2, "partitions": [{"topic": "a", "partition": 0, "offset": 1}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "offset": 1},'
        ' {"topic": "a", "partition": 0, "offset": 2}]}',
    ],
)
def test_invalid_json_is_an_error(text: str) -> None:
    """The error names the mistake."""
    with pytest.raises(ConfigError):
        offsets_of(text)
