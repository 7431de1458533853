"""Cleaned and deleted segments are counted in a partition's folder of either system."""

import os
from pathlib import Path

import pytest
from headrace.benchmarks.loops.upkeep import RemovedSegments
from headrace.benchmarks.machine_io import read_from_disk


@pytest.fixture
def segments(tmp_path: Path) -> RemovedSegments:
    """Three of ten bytes each, scanned once."""
    for number in range(3):
        (tmp_path / f"{number}.log").write_bytes(bytes(10))
        (tmp_path / f"{number}.index").write_bytes(bytes(10))
    found = RemovedSegments(tmp_path)
    found.scan()
    return found


def test_growing_and_new_segments_are_not_removed(segments: RemovedSegments) -> None:
    """The active segment grows, and a new one follows."""
    with (segments.folder / "2.log").open("ab") as active:
        active.write(bytes(5))
    (segments.folder / "3.log").write_bytes(bytes(10))
    segments.scan()
    assert (segments.count, segments.size_bytes) == (0, 0)


def test_deleted_segment_counts_when_it_is_renamed(segments: RemovedSegments) -> None:
    """Not again when its file is removed."""
    (segments.folder / "0.log").rename(segments.folder / "0.log.deleted")
    segments.scan()
    (segments.folder / "0.log.deleted").unlink()
    segments.scan()
    assert (segments.count, segments.size_bytes) == (1, 10)


def test_cleaned_segment_counts_although_its_name_is_reused(segments: RemovedSegments) -> None:
    """With the size before the cleaning."""
    folder = segments.folder
    (folder / "0.log.cleaned").write_bytes(bytes(3))
    segments.scan()
    assert segments.count == 0
    for old in ("0.log", "1.log"):
        (folder / old).rename(folder / f"{old}.deleted")
    (folder / "0.log.cleaned").rename(folder / "0.log")
    segments.scan()
    assert (segments.count, segments.size_bytes) == (2, 20)


def test_reset_forgets_earlier_segments(segments: RemovedSegments) -> None:
    """Those of the warm-up."""
    (segments.folder / "0.log").rename(segments.folder / "0.log.deleted")
    segments.scan()
    segments.reset()
    (segments.folder / "1.log").rename(segments.folder / "1.log.deleted")
    segments.scan()
    assert (segments.count, segments.size_bytes) == (1, 10)


def test_bytes_that_a_process_read_from_the_disk() -> None:
    """The kernel counts them, for this process too."""
    assert read_from_disk(os.getpid()) >= 0
