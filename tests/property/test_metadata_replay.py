"""Laws of replay: piecewise replay gives the same image, a snapshot too, and deltas have exactly the
changes."""

from headrace.protocol.metadata.difference import difference
from headrace.protocol.metadata.image import MetadataDelta, MetadataImage
from headrace.protocol.metadata.replay import image_of, image_records, replay
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_histories import histories


def _all_at_once(records):
    return replay(MetadataImage(), 0, records)


@given(histories())
def test_snapshot_of_an_image_is_the_image(records) -> None:
    """An image is written as records and read back: nothing is lost, and equal images give equal records."""
    image, _ = _all_at_once(records)
    again = image_of(image_records(image), image.offset)
    assert again == image
    assert image_records(again) == image_records(image)


@given(histories(), st.data())
def test_any_cut_gives_the_same_image(records, data) -> None:
    """One reader gets the log in pieces of any size, another all at once."""
    image, at = MetadataImage(), 0
    while at < len(records):
        size = data.draw(st.integers(1, len(records) - at))
        image, _ = replay(image, at, records[at : at + size])
        at += size
    assert image == _all_at_once(records)[0]


@given(histories(), st.data())
def test_old_images_never_change(records, data) -> None:
    """A reader holds an older image while the next one is made."""
    cut = data.draw(st.integers(1, len(records)))
    held, _ = replay(MetadataImage(), 0, records[:cut])
    before = image_records(held)
    replay(held, cut, records[cut:])
    assert image_records(held) == before


@given(histories(), st.data())
def test_delta_of_a_run_agrees_with_the_difference_of_images(records, data) -> None:
    """All that is not in the delta is equal before and after; created and deleted topics agree."""
    cut = data.draw(st.integers(1, len(records)))
    old, _ = replay(MetadataImage(), 0, records[:cut])
    new, delta = replay(old, cut, records[cut:])
    found = difference(old, new)
    assert found.brokers <= delta.brokers
    assert set(found.configs) <= set(delta.configs)
    assert set(found.acls) <= set(delta.acls)
    assert len(set(delta.acls)) == len(delta.acls)
    assert set(found.partitions) <= set(delta.partitions)
    assert set(found.topics_created) == set(delta.topics_created)
    assert {t.topic_id for t in found.topics_removed} == {t.topic_id for t in delta.topics_removed}
    assert all(topic == old.topics[topic.name] for topic in delta.topics_removed)
    assert len(set(delta.partitions)) == len(delta.partitions)
    assert all(topic_id in new.topic_names for topic_id, _ in delta.partitions)


@settings(max_examples=20)
@given(histories())
def test_untouched_maps_are_shared(records) -> None:
    """Records that change only the offset copy no map."""
    image, _ = _all_at_once(records)
    after, delta = replay(image, image.offset + 1, [])
    assert after.topics is image.topics
    assert after.brokers is image.brokers
    assert after.configs is image.configs
    assert delta == MetadataDelta()
