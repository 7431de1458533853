"""The delta of a snapshot: what a reader must do when its image is replaced."""

from headrace.protocol.metadata.difference import difference
from headrace.protocol.metadata.image import TOPIC_RESOURCE, MetadataDelta, MetadataImage
from headrace.protocol.metadata.records import (
    ConfigRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from headrace.protocol.metadata.replay import replay

T1, T2 = b"1" * 16, b"2" * 16

BASE = replay(
    MetadataImage(),
    0,
    [
        RegisterBrokerRecord(1, b"i" * 16, "h", 1, None, (), broker_epoch=0, is_fenced=False),
        RegisterBrokerRecord(2, b"j" * 16, "h", 2, None, (), broker_epoch=1, is_fenced=False),
        TopicRecord("a", T1),
        PartitionRecord(T1, 0, (1,), (1,), 1, 0, 0),
        PartitionRecord(T1, 1, (1,), (1,), 1, 0, 0),
        ConfigRecord(TOPIC_RESOURCE, "a", "k", "v"),
    ],
)[0]


def test_equal_images_differ_in_nothing() -> None:
    """A snapshot of what the reader has already."""
    assert difference(BASE, BASE) == MetadataDelta()


def test_changes_are_found_by_value() -> None:
    """A node is fenced, another one gone, one partition has another leader, a config is gone."""
    records = [
        FenceBrokerRecord(1, 0),
        UnregisterBrokerRecord(2, 1),
        PartitionChangeRecord(T1, 1, leader=-1),
        ConfigRecord(TOPIC_RESOURCE, "a", "k", None),
    ]
    delta = difference(BASE, replay(BASE, 6, records)[0])
    assert delta.brokers == {1, 2}
    assert delta.partitions == ((T1, 1),)
    assert delta.configs == ((TOPIC_RESOURCE, "a"),)


def test_a_topic_made_again_is_another_topic() -> None:
    """The name is the same, the id is not: all of its partitions are new."""
    records = [RemoveTopicRecord(T1), TopicRecord("a", T2), PartitionRecord(T2, 0, (1,), (1,), 1, 0, 0)]
    delta = difference(BASE, replay(BASE, 6, records)[0])
    assert delta.topics_removed == (BASE.topics["a"],)
    assert delta.topics_created == (T2,)
    assert delta.partitions == ((T2, 0),)
