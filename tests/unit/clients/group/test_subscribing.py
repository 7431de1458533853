"""Subscriptions of group members, by name and by pattern, on a fake cluster in virtual time."""

import re
from typing import Any

from group_members import RecordingListener, each_kind, member, owned, read, until
from headrace.protocol.model import CONSUMER_OFFSETS, TopicPartition

T0 = TopicPartition("t", 0)


@each_kind
async def test_pattern_matches_current_topics(fake: Any, cluster: Any, kind: str) -> None:
    """Topics that are created later too, no internal topics, and no deleted ones."""
    for name in ("ta", "tb", "other", CONSUMER_OFFSETS):
        fake.create(name)
        fake.put(name, 0, name.encode())
    consumer = member(cluster, kind, topics=None, session_timeout_ms=10_000)
    await consumer.subscribe(pattern="t.*|__consumer.*")
    await until(lambda: len(owned(consumer)) == 2, consumer)
    assert consumer.subscription() == ("ta", "tb")
    fake.create("tc")
    fake.put("tc", 0, b"tc")
    consumer._engine._hub.metadata.refresh_soon()
    await until(lambda: len(owned(consumer)) == 3, consumer)
    del fake.topics["ta"]
    fake.metadata_offset += 1
    consumer._engine._hub.metadata.refresh_soon()
    await until(lambda: [tp.topic for tp in owned(consumer)] == ["tb", "tc"], consumer)
    await consumer.subscribe("other")
    await until(lambda: [tp.topic for tp in owned(consumer)] == ["other"], consumer)
    assert "tb" not in consumer._engine._hub.metadata.view.topics


@each_kind
async def test_pattern_matches_internal_topics_when_not_excluded(fake: Any, cluster: Any, kind: str) -> None:
    """With exclude.internal.topics=false, whether client or coordinator match it."""
    fake.create(CONSUMER_OFFSETS)
    fake.create("t")
    consumer = member(cluster, kind, topics=None, pattern=".*", exclude_internal_topics=False)
    await until(lambda: len(owned(consumer)) == 2, consumer)
    assert consumer.subscription() == (CONSUMER_OFFSETS, "t")


@each_kind
async def test_compiled_pattern_has_python_semantics(fake: Any, cluster: Any, kind: str) -> None:
    """Flags and look-ahead work under each protocol; topics may be created later."""
    fake.create("tOld")
    consumer = member(
        cluster, kind, topics=None, pattern=re.compile("T(?!old).*", re.IGNORECASE), session_timeout_ms=10_000
    )
    await read(consumer, 20)
    assert owned(consumer) == ()
    fake.create("tNew")
    fake.put("tNew", 0, b"1")
    consumer._engine._hub.metadata.refresh_soon()
    assert await read(consumer) == [b"1"]
    assert owned(consumer) == (TopicPartition("tNew", 0),)
    await consumer.close()


@each_kind
async def test_unsubscribe_and_new_subscription(fake: Any, cluster: Any, kind: str) -> None:
    """The member leaves the group; the next subscription begins at the committed offsets."""
    fake.create("t")
    fake.create("u")
    fake.put("t", 0, b"t1")
    fake.put("u", 0, b"u1")
    result = RecordingListener()
    consumer = member(cluster, kind, listener=result)
    assert consumer.subscription() in ((), ("t",))
    assert await read(consumer) == [b"t1"]
    await consumer.subscribe(["t", "u"], listener=result)
    assert await read(consumer, 8.0) == [b"u1"]
    await consumer.unsubscribe()
    assert fake.group_members("g") == []
    assert consumer.subscription() == ()
    assert result.events[-1] == ("revoked", (T0, TopicPartition("u", 0)))
    fake.put("t", 0, b"t2")
    await consumer.subscribe("t")
    assert await read(consumer) == [b"t2"]
