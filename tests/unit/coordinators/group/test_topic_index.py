"""What groups know of topics: the hash that moves their epoch."""

from headrace.coordinators.group.topic_index import NO_TOPICS_HASH, TopicIndex
from headrace.protocol.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)


def _image(*topics: TopicImage, **racks: str | None) -> MetadataImage:
    brokers = {
        number: BrokerRegistration(number, 1, bytes(16), "", 0, rack, (), is_fenced=False)
        for number, rack in enumerate(racks.values(), 1)
    }
    names = {topic.topic_id: topic.name for topic in topics}
    return MetadataImage(
        1, brokers=brokers, topics={topic.name: topic for topic in topics}, topic_names=names
    )


def _topic(name: str, number: int, *replicas: tuple[int, ...], leader_epoch: int = 0) -> TopicImage:
    partitions = tuple(PartitionRegistration(each, each, each[0], leader_epoch, 0) for each in replicas)
    return TopicImage(name, bytes([number]) * 16, partitions)


def _hash(image: MetadataImage, *names: str) -> int:
    facts = TopicIndex()
    facts.look_at(image)
    return facts.hash_of(names)


def test_hash_is_the_same_in_every_process() -> None:
    """It is in the log: this number must not change, nor depend on the order of names or on topics that do
    not exist."""
    image = _image(_topic("a", 1, (1, 2)), _topic("b", 2, (2,), (1,)), one="north", two=None)
    assert _hash(image, "a", "b") == _hash(image, "b", "nothing", "a") == 8499406819650077004
    assert _hash(image) == _hash(image, "nothing") == NO_TOPICS_HASH


def test_hash_covers_all_inputs_of_assignments() -> None:
    """Ids, partition counts and racks; not leaders."""
    facts = TopicIndex()
    hashes = []
    for image in (
        _image(_topic("a", 1, (1,)), one="north"),
        _image(_topic("a", 1, (1,)), one="south"),
        _image(_topic("a", 1, (1,)), one=None),
        _image(_topic("a", 2, (1,)), one=None),
        _image(_topic("a", 2, (1,), (1,)), one=None),
    ):
        facts.look_at(image)
        hashes.append(facts.hash_of(["a"]))
    assert len(set(hashes)) == len(hashes)
    facts.look_at(_image(_topic("a", 2, (1,), (1,), leader_epoch=5), one=None))
    assert facts.hash_of(["a"]) == hashes[-1]


def test_names_and_ids_are_mapped_both_ways() -> None:
    facts = TopicIndex()
    facts.look_at(_image(_topic("a", 1, (1,), (1,))))
    assert facts.ids_of(["a", "b"]) == {bytes([1]) * 16}
    assert facts.id_of("a") == bytes([1]) * 16
    assert facts.id_of("b") is None
    assert facts.name_of(bytes([1]) * 16) == "a"
    assert facts.name_of(bytes(16)) is None
    assert facts.partition_counts([bytes([1]) * 16]) == {bytes([1]) * 16: 2}
