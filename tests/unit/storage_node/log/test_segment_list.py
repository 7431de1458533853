"""Finding segments by offset, and the bound on indexes in memory."""

from collections.abc import Callable
from typing import Any

from fake_files import FakeFiles
from headrace.storage_node.log.guarded_files import guarded
from headrace.storage_node.log.partition_folder import PartitionFolder
from headrace.storage_node.log.segment import Segment
from headrace.storage_node.log.segment_list import SegmentList
from log_rig import append, batch, open_log, read_all


def list_of(*bases: int) -> SegmentList:
    files = FakeFiles()
    files.mkdir("/d")
    segments = [Segment.create(files, "/d", base, created_ms=0) for base in bases]
    return SegmentList(PartitionFolder(guarded(files), "/d"), segments)


def test_segment_holding_an_offset() -> None:
    """By half-open ranges; offsets outside the log give the first or the last segment."""
    segments = list_of(5, 10, 20)
    found = [segments.holding(offset).base_offset for offset in (0, 5, 9, 10, 19, 20, 99)]
    assert found == [5, 5, 5, 10, 10, 20, 20]
    assert [segments.count_below(offset) for offset in (0, 9, 10, 20, 99)] == [0, 0, 1, 2, 2]


def test_loaded_indexes_are_bounded(files: FakeFiles) -> None:
    """A read through a long log keeps a bounded number; all can be loaded again."""
    log = open_log(files, segment_bytes=200, index_interval_bytes=0)
    for number in range(40):
        append(log, batch(1, tag=str(number)))
    assert len(log.segments) == 20
    for _ in range(2):
        assert len(read_all(log)) == 40
        loaded = [segment for segment in log.segments if segment.can_look_up(segment.base_offset)]
        assert len(loaded) <= 5


class Looking:
    """A segment during whose every use by its owner a reader looks at the list, as one on a thread may."""

    is_sealed = False
    size_bytes = 1

    def __init__(self, base: int, look: Callable[[], None]) -> None:
        self._base, self._look = base, look

    @property
    def base_offset(self) -> int:
        self._look()
        return self._base

    def position_of(self, _offset: int) -> int:
        return 1

    def retire(self) -> None:
        pass


def test_reader_during_a_change_sees_the_old_or_the_new_list() -> None:
    """Threads read while the owner replaces the lists: a short list is never searched with the base offsets
    of a long one."""
    folder = list_of(0)._folder
    looked: list[SegmentList] = []
    seen: list[object] = []

    def look() -> None:
        for segments in looked:
            seen.append((segments.holding(99), segments.bytes_between(0, 99)))

    segments: list[Any] = [Looking(base, look) for base in (0, 10, 20, 30)]
    for change in (lambda each: each.drop_first(3), lambda each: each.truncate_to(15)):
        changed = SegmentList(folder, segments[:])
        looked[:] = [changed]
        change(changed)
        looked.clear()
    whole = 3  # all segments but the last, of which nothing lies before 99
    assert seen
    assert set(seen) <= {(segments[3], whole), (segments[3], 0), (segments[1], 1)}
