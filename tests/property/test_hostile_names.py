"""Topic names never lead out of the log dirs, from any source of names."""

import posixpath
from collections.abc import Sequence

import pytest
from controller_kit import Driver
from core_rig import CoreRig
from fake_files import FakeFiles
from headrace.protocol.errors import InvalidTopicError, KafkaStorageError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreatePartitionsRequest, DeleteTopicsRequest, PartitionGrowth
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.metadata.records import FormatRecord
from headrace.protocol.model import TopicPartition
from headrace.storage_node.log import names
from headrace.storage_node.log.checkpoints import format_offsets, parse_offsets
from headrace.storage_node.log.log_manager import LogManager
from hypothesis import assume, given
from hypothesis import strategies as st
from log_rig import config

NASTY = (
    "",
    ".",
    "..",
    "../outside",
    "../../etc/passwd",
    "/etc/passwd",
    "inside/../../outside",
    "a/b",
    "a\\..\\b",
    "nul\0in",
    "t 0 99",
    "t\nother 0 99",
    "t\r",
    "tab\t",
    "-0/../../x",
    "~root",
    "$HOME",
    "%2e%2e%2f",
    "e\u0301t\u00e9",
    "\u202egpj",
    "t\uff0fu",
    "\U0001f600",
    "x" * 250,
    "x" * 70_000,
    "__cluster_metadata",
)
anything = st.sampled_from(NASTY) | st.text(max_size=300) | st.text(alphabet="./\\ab-_0\0\n ", max_size=12)
numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1) | st.integers(0, 20)
GOOD = "good"


class WatchedFiles(FakeFiles):
    """Records every path."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    def _inject(self, operation: str, path: str) -> None:
        self.paths.add(path)
        super()._inject(operation, path)

    def rename(self, source: str, target: str) -> None:
        self.paths.add(target)
        super().rename(source, target)

    def strays(self, directory: str) -> list[str]:
        """The used paths outside of the dir, resolved like a real file system does."""
        return [
            path
            for path in self.paths
            if path not in ("/", directory)
            and (posixpath.normpath(path) != path or not path.startswith(f"{directory}/") or "\0" in path)
        ]


@given(anything, numbers)
def test_legal_name_has_its_folder_directly_below_the_dir(topic: str, number: int) -> None:
    """The partition is parsed from the folder's name and from a line of a checkpoint; the file system takes
    the name with any suffix."""
    partition = TopicPartition(topic, number)
    if names.folder_fault(partition) is not None:
        with pytest.raises(InvalidTopicError):
            names.folder_name(partition)
        return
    name = names.folder_name(partition)
    path = f"/d/{name}"
    assert posixpath.normpath(path) == path
    assert posixpath.dirname(path) == "/d"
    assert len(name.encode()) <= 255
    assert names.parse_folder_name(name) == partition
    assert parse_offsets(format_offsets({partition: 5, TopicPartition("z", 1): 6}))[partition] == 5


@given(anything | st.from_regex(r"[a-z./-]{0,9}-[0-9]{1,11}", fullmatch=True))
def test_folder_name_of_a_partition_is_unique(found: str) -> None:
    """So no two folders are the same partition (t-7 and t-007), and no partition has an illegal name."""
    partition = names.parse_folder_name(found)
    if partition is not None:
        assert names.folder_name(partition) == found


@given(st.lists(anything, min_size=1, max_size=5, unique=True))
def test_controller_creates_no_topic_with_an_illegal_name(topics: list[str]) -> None:
    """INVALID_TOPIC_EXCEPTION; to grow or delete such a topic fails, too."""
    driver = Driver()
    driver.join(1)
    for topic in topics:
        is_legal = names.folder_fault(TopicPartition(topic, 0)) is None
        answer = driver.create(topic)
        if not is_legal:
            assert answer.error_code == InvalidTopicError.code
            assert len(answer.error_detail) < 1_000
            grown = driver.ask(CreatePartitionsRequest((PartitionGrowth(topic, 3),)))
            gone = driver.ask(DeleteTopicsRequest((topic,)))
            assert [grown.results[0].error_code, gone.results[0].error_code] == [3, 3]
    assert all(names.folder_fault(TopicPartition(topic, 0)) is None for topic in driver.image.topics)


def watched(records: Sequence[object] = (FormatRecord("c"),), files: WatchedFiles | None = None) -> CoreRig:
    return CoreRig(WatchedFiles() if files is None else files, "/d", records)


@given(anything, st.booleans(), st.booleans())
def test_illegal_topic_name_in_the_metadata_creates_no_file(
    topic: str, is_led_here: bool, is_snapshot: bool
) -> None:
    """From a hostile or newer controller, by records or by a snapshot, as leader or follower: the node
    logs it, reports the partition as not served, serves everything else, and survives restarts."""
    assume(names.folder_fault(TopicPartition(topic, 0)) is not None)
    rig = watched()
    good = rig.topic(GOOD)
    leader = rig.node_id if is_led_here else rig.node_id + 1
    bad, made = rig.topic_records(
        topic, 2, leader=leader, replicas=(rig.node_id, rig.node_id + 1), segment_ms="never"
    )
    rig.metadata(*made)
    if is_snapshot:
        rig.snapshot(rig.image)
    notes = rig.notes()
    assert "cannot have a log" in notes
    assert notes.isprintable() or notes.replace("\n", "").isprintable()
    assert len(notes) < 5_000
    assert set(rig.core.replicas.disks.report().offline) == {(bad, 0), (bad, 1)}
    assert rig.produce(bad, acks=1).first.error_code in (KafkaStorageError.code, 6)
    assert rig.fetch(bad).first.error_code in (KafkaStorageError.code, 6)
    rig.ask(registry.METADATA, MetadataRequest((topic, GOOD)))
    assert rig.produce(good).is_answered
    rig.tick()
    rig.flush()
    for task in rig.manager.checkpoints.tasks():
        task.run()
    if not is_snapshot:
        rig.remove(bad)
        assert not rig.core.replicas.disks.report().offline
    rig.purge()
    rig.manager.shutdown()
    files = rig.files
    assert isinstance(files, WatchedFiles)
    again = watched(rig.records, files)
    assert again.values(good) == [b"v"]
    assert files.strays("/d") == []


@given(anything, numbers)
def test_log_manager_rejects_illegal_names(topic: str, number: int) -> None:
    """For every caller."""
    partition = TopicPartition(topic, number)
    assume(names.folder_fault(partition) is not None)
    files = WatchedFiles()
    files.mkdir("/d")
    manager = LogManager(files, ("/d",), defaults=config(), new_uuid=lambda: b"u" * 16)
    manager.open_dirs()
    manager.load(0)
    with pytest.raises(InvalidTopicError):
        manager.create(partition, b"i" * 16, config(), is_new=True)
    assert files.strays("/d") == []
    assert manager.dirs.online


@pytest.mark.parametrize("size", [0, 15, 17])
def test_topic_id_of_another_length_has_no_log(size: int) -> None:
    """Its partition.metadata file could not be read."""
    from headrace.protocol.metadata.records import PartitionRecord, TopicRecord

    rig = watched()
    topic_id = b"i" * size
    rig.metadata(
        TopicRecord("t", topic_id),
        PartitionRecord(topic_id, 0, (rig.node_id,), (rig.node_id,), rig.node_id, 0, 0),
    )
    assert f"{size} bytes" in rig.notes()
    assert not any("t-0" in path for path in rig.files.paths)  # type: ignore[attr-defined]
