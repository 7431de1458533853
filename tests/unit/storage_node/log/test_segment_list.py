"""Finding segments by offset, and the bound on indexes in memory."""

from __future__ import annotations

from fake_files import FakeFiles
from headrace.storage_node.log.segment import Segment
from headrace.storage_node.log.segment_list import SegmentList
from log_rig import append, batch, open_log, read_all


def list_of(*bases: int) -> SegmentList:
    files = FakeFiles()
    files.mkdir("/d")
    segments = [Segment.create(files, "/d", base, created_ms=0) for base in bases]
    return SegmentList(segments)


def test_the_segment_that_holds_an_offset() -> None:
    """By half-open ranges; what lies outside goes to the first or last."""
    segments = list_of(5, 10, 20)
    found = [segments.holding(offset).base_offset for offset in (0, 5, 9, 10, 19, 20, 99)]
    assert found == [5, 5, 5, 10, 10, 20, 20]
    assert [segments.count_below(offset) for offset in (0, 9, 10, 20, 99)] == [0, 0, 1, 2, 2]


def test_indexes_of_few_sealed_segments_stay_in_memory() -> None:
    """A reader that walks through a long log holds a bounded number of them; all can be read again."""
    files = FakeFiles()
    log = open_log(files, segment_bytes=200, index_interval_bytes=0)
    for number in range(40):
        append(log, batch(1, tag=str(number)))
    assert log.segment_count == 20
    for _ in range(2):
        assert len(read_all(log)) == 40
        loaded = [segment for segment in log._segments if segment._offset_index is not None]
        assert len(loaded) <= 5
