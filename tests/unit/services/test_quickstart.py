"""The verdict of the quickstart about the sums of its senders and readers."""

from pathlib import Path

from headrace.services.key_fields import KeyField
from headrace.services.quickstart import PARTITIONS, Outcome, _place, _with_keys
from headrace.services.quickstart_read import PartitionRead
from headrace.services.record_sums import RecordSum


def outcome_of(*values: bytes) -> Outcome:
    """The same record on both sides of partition 0, 1, ...; the rest is empty."""
    outcome = Outcome()
    for partition in range(PARTITIONS):
        total = RecordSum()
        for value in values[partition : partition + 1]:
            outcome.sent[partition].add(b"k", value)
            total.add(b"k", value)
        outcome.read.append(
            PartitionRead(partition, total, [(value, partition + 1) for value in values], 0.0, 1.0)
        )
    return outcome


def test_equal_sums_are_complete() -> None:
    """All partitions are equal, empty ones included."""
    outcome = outcome_of(b"a", b"b")
    assert outcome.differences() == []
    assert outcome.total_sent == outcome.total_read
    assert outcome.total_sent.count == 2


def test_record_in_the_wrong_partition_is_a_difference() -> None:
    """The totals are equal, the partitions are not."""
    outcome = outcome_of(b"a", b"b")
    outcome.sent[0], outcome.sent[1] = outcome.sent[1], outcome.sent[0]
    assert outcome.total_sent == outcome.total_read
    assert [text.partition(":")[0] for text in outcome.differences()] == ["partition 0", "partition 1"]


def test_unread_partition_is_a_difference() -> None:
    """A missing reader is not an empty partition."""
    outcome = outcome_of(b"a")
    del outcome.read[5]
    assert outcome.differences() == [f"partition 5: {RecordSum()} in, {RecordSum()} out"]


def test_top_keys_add_up_over_partitions() -> None:
    """The lists of the readers are merged."""
    outcome = Outcome()
    outcome.read = [
        PartitionRead(0, RecordSum(), [(b"a", 5), (b"b", 1)], 0.0, 1.0),
        PartitionRead(1, RecordSum(), [(b"c", 7)], 0.0, 1.0),
    ]
    assert outcome.top_keys == [(b"c", 7), (b"a", 5), (b"b", 1)]


def test_folder_of_a_partition_is_found(tmp_path: Path) -> None:
    """Under the data dir of its node; only segments count as its size."""
    directory = tmp_path / "node-2" / "quickstart-3"
    directory.mkdir(parents=True)
    (directory / "00000000000000000000.log").write_bytes(b"12345")
    (directory / "00000000000000000000.index").write_bytes(b"1")
    place = _place(tmp_path, 3)
    assert (place.node, place.directory, place.size_bytes) == ("node-2", str(directory), 5)
    assert _place(tmp_path, 4).directory == ""


def test_key_field_option_overrides_the_guess() -> None:
    """--key-field counts from one, and keeps the separator that was found."""
    chosen = KeyField(0, b",")
    assert list(_with_keys(iter([b"a,b,c"]), chosen, None)) == [(b"a", b"a,b,c")]
    assert list(_with_keys(iter([b"a,b,c"]), chosen, 3)) == [(b"c", b"a,b,c")]
