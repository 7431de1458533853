"""Read-ahead in front of a client that catches up, and the pages that go behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rig import CoreRig, FakePeer
from headrace.storage_node.effects import AdvisePages
from headrace.storage_node.replica import catch_up
from node_rig import batch, values_of

if TYPE_CHECKING:
    import pytest

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


def test_a_sequential_reader_waits_for_the_disk_only_at_first() -> None:
    """From its second read on, the disk is ahead of it: all others come from the page cache."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    reader = Reader(rig, sealed_topic(rig), 1)
    while reader.go_on():
        pass
    assert reader.offset == COUNT
    assert reader.cold == 2
    assert max(size for kind, _, _, size in rig.files.advice if kind == "will_need") <= 450_000


def test_without_read_ahead_every_step_is_a_cold_read() -> None:
    """The key says 0."""
    rig = new_rig(fetch_read_ahead_bytes=0)
    reader = Reader(rig, sealed_topic(rig), 1)
    while reader.go_on():
        pass
    assert reader.cold >= COUNT * SIZE // reader.step
    assert not any(kind == "will_need" for kind, *_ in rig.files.advice)


def test_a_jumping_reader_gets_no_read_ahead() -> None:
    """Who reads here and there would only fill the page cache."""
    rig = new_rig()
    reader = Reader(rig, sealed_topic(rig), 1)
    for offset in (0, 100, 50, 150):
        reader.offset = offset
        assert reader.go_on()
    assert not any(kind == "will_need" for kind, *_ in rig.files.advice)


def test_what_was_brought_in_goes_again() -> None:
    """A catch-up reader leaves a sealed segment as cold as it was, but for the last pages."""
    rig = new_rig(fetch_read_ahead_bytes=400_000)
    reader = Reader(rig, sealed_topic(rig), 1)
    most = 0
    while reader.go_on():
        most = max(most, rig.files.cached_bytes(LOG_FILE))
    assert most < 1_000_000
    assert rig.files.cached_bytes(LOG_FILE) <= 2 * reader.step


def test_what_was_cached_before_stays() -> None:
    """A reader of warm pages drops nothing: they are somebody's."""
    rig = new_rig()
    reader = Reader(rig, sealed_topic(rig, is_cold=False), 1)
    while reader.go_on():
        pass
    assert reader.cold == 0
    assert not rig.files.advice


def test_a_reader_near_behind_finds_the_pages() -> None:
    """The second one reads what the first has brought in; then they go."""
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


def test_a_reader_far_behind_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages would be gone anyway by the time it comes."""
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


def test_the_newest_of_an_active_segment_and_unsynced_bytes_are_never_dropped() -> None:
    """The active segment is smaller than what is kept of its end."""
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


def test_only_what_was_brought_in_goes_behind_its_reader() -> None:
    """One read that had to wait for a disk says nothing of the rest of its segment: that may be lent."""
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


def test_what_was_cached_ahead_of_a_reader_stays() -> None:
    """A reader that met a disk goes on in the page cache: those pages are not its own, one window aside."""
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


def test_gone_clients_are_forgotten() -> None:
    """Nothing is kept of a connection that broke, nor of more readers than the bound."""
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
