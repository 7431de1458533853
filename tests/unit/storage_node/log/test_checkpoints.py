"""Kafka's small text files: exact bytes, and an error for any damage."""

import pytest
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log import checkpoints
from headrace.storage_node.log.checkpoints import CorruptFileError
from headrace.storage_node.log.leader_epochs import EpochEntry

TOPIC_ID = bytes(range(240, 256))


def test_offset_checkpoints_round_trip_in_kafkas_bytes() -> None:
    """Version, count, and one line per partition, sorted."""
    offsets = {TopicPartition("b.x", 1): 7, TopicPartition("a", 10): 0}
    content = checkpoints.format_offsets(offsets)
    assert content == b"0\n2\na 10 0\nb.x 1 7\n"
    assert checkpoints.parse_offsets(content) == offsets
    assert checkpoints.parse_offsets(checkpoints.format_offsets({})) == {}
    assert checkpoints.parse_offsets(b"") == {}, "Kafka creates the file empty"


def test_epoch_checkpoints_round_trip_in_kafkas_bytes() -> None:
    """Version, count, and epoch and start offset per line."""
    entries = (EpochEntry(0, 0), EpochEntry(3, 17))
    content = checkpoints.format_epochs(entries)
    assert content == b"0\n2\n0 0\n3 17\n"
    assert tuple(checkpoints.parse_epochs(content)) == entries


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"0\n",
        b"1\n0\n",
        b"x\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0 1\nb 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\na x 1\n",
        b"0\n1\na 0 99999999999999999999\n",
        b"0\n-1\n",
        b"\0" * 30,
        b"0\n1\n\xff 0 1\n",
        b"0\n99999999999\n",
    ],
)
def test_damaged_checkpoints_are_rejected(content: bytes) -> None:
    """Truncated, zeroed or miscounted: a checkpoint is read as a whole or not at all."""
    with pytest.raises(CorruptFileError):
        checkpoints.parse_offsets(content)


@pytest.mark.parametrize("content", [b"0\n1\n5\n", b"0\n2\n5 0\n5 1\n", b"0\n2\n5 9\n6 8\n", b"0\n1\n-2 0\n"])
def test_falling_epochs_are_rejected(content: bytes) -> None:
    """Epochs and offsets rise and are not negative."""
    with pytest.raises(CorruptFileError):
        checkpoints.parse_epochs(content)


def test_checkpoint_with_crlf_is_read() -> None:
    """An operator may have edited it."""
    assert checkpoints.parse_offsets(b"0\r\n1\r\na 0 5\r\n") == {TopicPartition("a", 0): 5}


def test_partition_metadata() -> None:
    """Kafka's two lines, with the topic id in URL-safe base64."""
    content = checkpoints.format_partition_metadata(TOPIC_ID)
    assert content == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert checkpoints.parse_partition_metadata(content) == TOPIC_ID
    assert checkpoints.parse_partition_metadata(content + b"\n") == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w",
        b"version: 0\n",
        b"version: 0\ntopic_id: x",
        b"version: 0\ntopic_id: AAAA",
        b"\xff",
    ],
)
def test_damaged_partition_metadata_is_rejected(content: bytes) -> None:
    """A wrong topic id would be worse than none."""
    with pytest.raises(CorruptFileError):
        checkpoints.parse_partition_metadata(content)


def test_properties_as_java_writes_them() -> None:
    """Comments, spaces and escapes of java.util.Properties."""
    content = b"#\n#Fri Nov 20 10:00:00 UTC 2026\ncluster.id=a\\=b\\:c\\\\d\n node.id = 3\n\nversion=1\n"
    properties = checkpoints.parse_properties(content)
    assert properties == {"cluster.id": "a=b:c\\d", "node.id": "3", "version": "1"}
    assert checkpoints.parse_properties(checkpoints.format_properties(properties)) == properties
    with pytest.raises(CorruptFileError, match="line 2"):
        checkpoints.parse_properties(b"a=1\nnonsense\n")


def test_clean_shutdown_marker() -> None:
    """The file is valid even if its broker epoch is missing or damaged."""
    content = checkpoints.format_clean_shutdown(42)
    assert content == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.parse_clean_shutdown(content) == 42
    for damaged in (b"", b"x", b"[]", b"{}", b'{"brokerEpoch":"x"}', b"\xff"):
        assert checkpoints.parse_clean_shutdown(damaged) == -1
