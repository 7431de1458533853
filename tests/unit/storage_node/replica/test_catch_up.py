"""Read-ahead for a client that catches up, and the pages that are dropped behind it."""

from typing import Any

import pytest
from core_rig import CoreRig, FakePeer
from headrace.storage_node.effects import AdvisePages
from headrace.storage_node.replica import catch_up
from node_rig import batch, values_of

LOG_FILE = "/d/t-0/" + "0" * 20 + ".log"
COUNT, SIZE = 200, 10_000


def sealed_topic(rig: CoreRig, *, is_cold: bool = True) -> bytes:
    """A topic whose first segment has 2 MB, is on the disk and not in the page cache."""
    topic_id = rig.topic()
    for number in range(COUNT):
        rig.produce(topic_id, batch(b"%d" % number + b"v" * SIZE))
    log = rig.core.table.partitions[topic_id, 0].log
    log.roll(0)
    rig.core.flush_all()
    rig.check()
    rig.flush()
    if is_cold:
        rig.files.evict("t-0/")
    return topic_id


class Reader:
    """A client that reads on and on, in small steps."""

    def __init__(self, rig: CoreRig, topic_id: bytes, session: int, step: int = 50_000) -> None:
        self.rig, self.topic_id, self.step = rig, topic_id, step
        self.peer = FakePeer(session=session)
        self.offset = 0
        self.cold = 0

    def go_on(self) -> bool:
        """One fetch; False at the end."""
        request = self.rig.fetch(
            self.topic_id, self.offset, partition_max_bytes=self.step, peer=self.peer, max_wait_ms=1
        )
        if not request.is_answered:
            self.cold += self.rig.read_cold()
        for effect in self.rig.pop(AdvisePages):
            effect.advice.run()
        found = values_of(request.answer_frames) if request.answer is not None else []
        assert [offset for offset, _ in found] == [*range(self.offset, self.offset + len(found))]
        self.offset += len(found)
        return bool(found)


def new_rig(**config: Any) -> CoreRig:
    return CoreRig(log_tail_cache_bytes=0, **config)


def test_sequential_reader_waits_for_the_disk_only_once() -> None:
    """From its second read on, read-ahead has filled the page cache."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    reader = Reader(rig, sealed_topic(rig), 1)
    while reader.go_on():
        pass
    assert reader.offset == COUNT
    assert reader.cold == 2
    assert max(size for kind, _, _, size in rig.files.advice if kind == "will_need") <= 450_000


def test_without_read_ahead_every_read_is_cold() -> None:
    rig = new_rig(fetch_read_ahead_bytes=0)
    reader = Reader(rig, sealed_topic(rig), 1)
    while reader.go_on():
        pass
    assert reader.cold >= COUNT * SIZE // reader.step
    assert not any(kind == "will_need" for kind, *_ in rig.files.advice)


def test_random_reader_gets_no_read_ahead() -> None:
    """It would only fill the page cache."""
    rig = new_rig()
    reader = Reader(rig, sealed_topic(rig), 1)
    for offset in (0, 100, 50, 150):
        reader.offset = offset
        assert reader.go_on()
    assert not any(kind == "will_need" for kind, *_ in rig.files.advice)


def test_loaded_pages_are_dropped_behind_the_reader() -> None:
    """Of a sealed segment all but the last pages."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    reader = Reader(rig, sealed_topic(rig), 1)
    most = 0
    while reader.go_on():
        most = max(most, rig.files.cached_bytes(LOG_FILE))
    assert most < 1_000_000
    assert rig.files.cached_bytes(LOG_FILE) <= 2 * reader.step


def test_pages_cached_before_stay() -> None:
    rig = new_rig()
    reader = Reader(rig, sealed_topic(rig, is_cold=False), 1)
    while reader.go_on():
        pass
    assert reader.cold == 0
    assert not rig.files.advice


def test_pages_stay_for_a_reader_nearby() -> None:
    """Dropped when the second reader has passed."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    topic_id = sealed_topic(rig)
    first, second = Reader(rig, topic_id, 1), Reader(rig, topic_id, 2)
    first.go_on()
    second.go_on()
    second_cold = second.cold
    while first.go_on():
        second.go_on()
    while second.go_on():
        pass
    assert second.offset == COUNT
    assert second.cold == second_cold
    assert rig.files.cached_bytes(LOG_FILE) <= 2 * first.step


def test_pages_do_not_wait_for_a_distant_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be evicted before it arrives."""
    monkeypatch.setattr(catch_up, "_NEAR_BYTES", 300_000)
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    topic_id = sealed_topic(rig)
    slow, fast = Reader(rig, topic_id, 2), Reader(rig, topic_id, 1)
    slow.go_on()
    while fast.go_on():
        pass
    assert rig.files.cached_bytes(LOG_FILE) < 700_000
    while slow.go_on():
        pass
    assert slow.offset == COUNT


def test_tail_and_unflushed_bytes_of_an_active_segment_are_not_dropped() -> None:
    """The active segment is smaller than the tail that is kept."""
    rig = new_rig()
    topic_id = rig.topic()
    for number in range(COUNT):
        rig.produce(topic_id, batch(b"%d" % number + b"v" * SIZE))
    rig.core.flush_all()
    rig.check()
    rig.flush()
    rig.files.evict("t-0/")
    reader = Reader(rig, topic_id, 1)
    while reader.go_on():
        pass
    assert reader.offset == COUNT
    assert not any(kind == "drop_cached" for kind, *_ in rig.files.advice)


def test_only_loaded_ranges_are_dropped() -> None:
    """One cold read says nothing of the rest of the segment, which may be lent."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    topic_id = sealed_topic(rig)
    reader = Reader(rig, topic_id, 1)
    for _ in range(2):
        reader.go_on()
    assert reader.cold
    followed = rig.core._fetch.reader.catch_up
    segment = rig.core.table.partitions[topic_id, 0].log.segments[0]
    assert followed.overlaps(segment, 200_000, 200_001)
    assert not followed.overlaps(segment, 1_000_000, segment.size_bytes)


def test_pages_cached_ahead_of_a_reader_stay() -> None:
    """After a cold read the reader continues in cached pages that are not its own, except one window."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    topic_id = sealed_topic(rig)
    segment = rig.core.table.partitions[topic_id, 0].log.segments[0]
    segment.file.pread(500_000, segment.size_bytes - 500_000)
    reader = Reader(rig, topic_id, 1)
    while reader.go_on():
        pass
    assert reader.offset == COUNT
    assert rig.files.cached_bytes(LOG_FILE) > segment.size_bytes - 500_000 - 400_000 - 10_000
    assert not rig.core._fetch.reader.catch_up.overlaps(segment, 950_000, segment.size_bytes)


def test_state_of_disconnected_clients_is_dropped() -> None:
    """And that of readers above the bound."""
    rig = new_rig()
    topic_id = sealed_topic(rig)
    for session in range(1, 6):
        Reader(rig, topic_id, session).go_on()
    followed = rig.core._fetch.reader.catch_up
    assert len(followed) == 5
    for session in range(1, 6):
        rig.core.connection_gone(session, rig.now_ms)
    assert len(followed) == 0
    assert not followed._segments
