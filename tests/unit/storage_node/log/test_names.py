"""Names in a log dir: segment files, partition folders, and neither."""

import pytest
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log import names


def test_segment_names_have_twenty_digits() -> None:
    """As Kafka writes them."""
    assert names.segment_name(42, names.LOG) == "00000000000000000042.log"
    assert names.parse_segment_name("00000000000000000042.timeindex") == (42, ".timeindex")


@pytest.mark.parametrize(
    "name", ["42.log", "0000000000000000004x.log", "00000000000000000042", "9" * 20 + ".log"]
)
def test_other_names_are_no_segments(name: str) -> None:
    """Wrong length, no number, no suffix, beyond 63 bits."""
    assert names.parse_segment_name(name) is None


def test_partition_folders() -> None:
    """The partition follows the last dash."""
    assert names.parse_folder_name("a-b.c_d-12") == TopicPartition("a-b.c_d", 12)


@pytest.mark.parametrize(
    "name", ["a", "a-", "-1", "a-x", "a-1.deadbeef-delete", "a-1-stray", "a-9999999999", "ä-1"]
)
def test_other_folders_are_no_partitions(name: str) -> None:
    """Suffixes, missing parts, numbers out of range."""
    assert names.parse_folder_name(name) is None
