"""Replay refuses what no controller wrote, and says exactly what changed."""

from dataclasses import replace

import msgspec
import pytest
from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionRegistration, configured
from headrace.protocol.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    FormatRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from headrace.protocol.metadata.replay import changed_partition, image_of, image_records, replay

T1, T2 = b"1" * 16, b"2" * 16
BROKER = RegisterBrokerRecord(1, b"i" * 16, "h", 1, None, (), broker_epoch=0)


def partition(topic_id: bytes = T1, number: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id, number, (1,), (1,), 1, 0, 0)


def after(*records):
    return replay(MetadataImage(), 0, records)[0]


@pytest.mark.parametrize(
    "records",
    [
        [FormatRecord("a"), FormatRecord("b")],
        [TopicRecord("a", T1), TopicRecord("a", T2)],
        [TopicRecord("a", T1), TopicRecord("b", T1)],
        [RemoveTopicRecord(T1)],
        [partition()],
        [TopicRecord("a", T1), partition(number=1)],
        [TopicRecord("a", T1), partition(), partition()],
        [TopicRecord("a", T1), PartitionChangeRecord(T1, 0, leader=1)],
        [FenceBrokerRecord(1, 0)],
        [BROKER, FenceBrokerRecord(1, 7)],
        [BROKER, UnregisterBrokerRecord(1, 7)],
        [ProducerIdsRecord(1, 0, 1000), ProducerIdsRecord(1, 0, 1000)],
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(records) -> None:
    """The log was mixed up: replay stops instead of making an image that never was."""
    with pytest.raises(ValueError, match=f"offset {len(records) - 1}:"):
        replay(MetadataImage(), 0, records)


@pytest.mark.parametrize("base_offset", [0, 2])
def test_records_must_continue_the_image(base_offset) -> None:
    """A piece of the log comes twice, or one is missing."""
    with pytest.raises(ValueError, match="do not continue"):
        replay(after(FormatRecord("a")), base_offset, [TopicRecord("a", T1)])


def test_leader_and_partition_epochs_count_up() -> None:
    """A leader change raises both epochs, an ISR change only the partition's."""
    image = after(
        TopicRecord("a", T1),
        partition(),
        PartitionChangeRecord(T1, 0, leader=-1),
        PartitionChangeRecord(T1, 0, isr=(1,)),
        PartitionChangeRecord(T1, 0, leader=1),
    )
    (found,) = image.topics["a"].partitions
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 2, 3)


def test_deleting_a_topic_takes_its_configs() -> None:
    """A topic of the same name starts without the configs of the deleted one."""
    image = after(
        TopicRecord("a", T1), partition(), ConfigRecord(TOPIC_RESOURCE, "a", "k", "v"), RemoveTopicRecord(T1)
    )
    assert image == MetadataImage(offset=3)


def test_a_topic_recreated_in_one_run_is_removed_and_created() -> None:
    """Delete and create of one name arrive together: the reader must drop the old log and start a new one."""
    old = after(TopicRecord("a", T1), partition())
    new, delta = replay(old, 2, [RemoveTopicRecord(T1), TopicRecord("a", T2), partition(T2)])
    assert delta.topics_removed == (old.topics["a"],)
    assert delta.topics_created == (T2,)
    assert delta.partitions == ((T2, 0),)
    assert new.topic_names == {T2: "a"}


def test_a_topic_that_came_and_went_in_one_run_never_was() -> None:
    """The reader was away for the whole life of a topic."""
    _, delta = replay(MetadataImage(), 0, [TopicRecord("a", T1), partition(), RemoveTopicRecord(T1)])
    assert delta.topics_created == delta.topics_removed == delta.partitions == ()


def test_a_snapshot_keeps_its_offset() -> None:
    """The image of a snapshot stands where the log stood, however few records made it."""
    assert image_of([FormatRecord("a")], 77).offset == 77


# What a controller without replication wrote: fields that came later are missing at the end of the arrays.
OLDER = [
    ["Format", "cluster"],
    ["RegisterBroker", 1, b"i" * 16, "h", 9, None, [b"d" * 16], 1, True],
    ["UnfenceBroker", 1, 1],
    ["Topic", "a", b"t" * 16],
    ["Partition", b"t" * 16, 0, [1], [1], 1, 0, 0],
    ["PartitionChange", b"t" * 16, 0, -1, None],
]


def test_records_of_an_older_version_get_their_defaults() -> None:
    """No reassignment, no ELR, the leader has recovered, no node is in controlled shutdown."""
    records = [msgspec.msgpack.decode(msgspec.msgpack.encode(each), type=MetadataRecord) for each in OLDER]
    image, _ = replay(MetadataImage(), 0, records)
    assert not image.brokers[1].in_controlled_shutdown
    assert image.topics["a"].partitions == (PartitionRegistration((1,), (1,), -1, 1, 1, (), (), (), (), 0),)
    assert image_of(image_records(image), image.offset) == image


def test_a_change_keeps_other_fields() -> None:
    """One field after the other; each raises the partition epoch, only a named leader the leader epoch."""
    before = PartitionRegistration((1, 2), (1,), 1, 5, 7, (2,), (1,), (2,), (), 1)
    changes = {
        "isr": (1, 2),
        "replicas": (2, 1),
        "adding_replicas": (),
        "removing_replicas": (),
        "elr": (),
        "last_known_elr": (2,),
        "leader_recovery_state": 0,
        "leader": 1,
    }
    for name, value in changes.items():
        after = changed_partition(before, PartitionChangeRecord(T1, 0, **{name: value}))
        epochs = {"partition_epoch": 8, "leader_epoch": 5 + (name == "leader")}
        assert after == replace(before, **epochs, **{name: value})


def test_a_registration_changes_while_its_process_runs() -> None:
    """On its way out, and back; a record of another epoch belongs to another log."""
    image, _ = replay(MetadataImage(), 0, [BROKER, BrokerRegistrationChangeRecord(1, 0, True)])
    assert image.brokers[1].in_controlled_shutdown
    image, delta = replay(image, 2, [BrokerRegistrationChangeRecord(1, 0, None)])
    assert image.brokers[1].in_controlled_shutdown
    assert delta.brokers == {1}
    image, _ = replay(image, 3, [BrokerRegistrationChangeRecord(1, 0, False)])
    assert not image.brokers[1].in_controlled_shutdown
    with pytest.raises(ValueError, match="epoch 9"):
        replay(image, 4, [BrokerRegistrationChangeRecord(1, 9, True)])


def test_replicas_in_log_dirs_that_failed_belong_to_a_process() -> None:
    """They stay until the process reports otherwise, also in a snapshot; the next process has none."""
    broken = ((b"t" * 16, 0), (b"t" * 16, 2))
    image, _ = replay(MetadataImage(), 0, [BROKER, BrokerRegistrationChangeRecord(1, 0, None, broken)])
    image, _ = replay(image, 2, [BrokerRegistrationChangeRecord(1, 0, True)])
    assert image.brokers[1].offline_replicas == broken
    assert image_of(image_records(image), image.offset) == image
    assert (
        not replay(image, 3, [BrokerRegistrationChangeRecord(1, 0, None, ())])[0].brokers[1].offline_replicas
    )
    assert not replay(image, 3, [BROKER])[0].brokers[1].offline_replicas


def test_the_nearest_config_holds() -> None:
    """The topic's own, else the cluster's, else none."""
    image = MetadataImage(configs={(2, "t"): {"a": "1"}, (4, ""): {"a": "2", "b": "3"}, (4, "1"): {"c": "4"}})
    assert [configured(image, "t", name) for name in "abc"] == ["1", "3", None]
    assert configured(image, "u", "a") == "2"


def test_producer_ids_that_are_taken_are_in_a_snapshot() -> None:
    """A controller that starts from one gives none of them again."""
    image = after(BROKER, ProducerIdsRecord(1, 0, 1000), ProducerIdsRecord(1, 0, 2000))
    assert image.next_producer_id == 2000
    assert image_of(image_records(image), image.offset) == image
    assert MetadataImage().next_producer_id == 0  # what older logs say
