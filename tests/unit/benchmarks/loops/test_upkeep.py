"""What a folder shows of cleaned and deleted segments, whichever system wrote it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from headrace.benchmarks.loops.upkeep import Segments
from headrace.benchmarks.machine_io import read_from_disk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    """Three of ten bytes each, seen once."""
    for number in range(3):
        (tmp_path / f"{number}.log").write_bytes(bytes(10))
        (tmp_path / f"{number}.index").write_bytes(bytes(10))
    found = Segments(tmp_path)
    found.look()
    return found


def test_what_stays_or_grows_or_begins_is_not_gone(segments: Segments) -> None:
    """The active segment grows, and another one follows it."""
    with (segments.folder / "2.log").open("ab") as active:
        active.write(bytes(5))
    (segments.folder / "3.log").write_bytes(bytes(10))
    segments.look()
    assert (segments.gone, segments.gone_bytes) == (0, 0)


def test_a_deleted_segment_is_gone_once_it_is_renamed(segments: Segments) -> None:
    """And not again when its file goes."""
    (segments.folder / "0.log").rename(segments.folder / "0.log.deleted")
    segments.look()
    (segments.folder / "0.log.deleted").unlink()
    segments.look()
    assert (segments.gone, segments.gone_bytes) == (1, 10)


def test_a_cleaned_segment_is_gone_though_another_has_its_name(segments: Segments) -> None:
    """What counts is what was read: the size before."""
    folder = segments.folder
    (folder / "0.log.cleaned").write_bytes(bytes(3))
    segments.look()
    assert segments.gone == 0
    for old in ("0.log", "1.log"):
        (folder / old).rename(folder / f"{old}.deleted")
    (folder / "0.log.cleaned").rename(folder / "0.log")
    segments.look()
    assert (segments.gone, segments.gone_bytes) == (2, 20)


def test_only_what_is_gone_since_is_counted(segments: Segments) -> None:
    """The warm-up is not."""
    (segments.folder / "0.log").rename(segments.folder / "0.log.deleted")
    segments.look()
    segments.forget()
    (segments.folder / "1.log").rename(segments.folder / "1.log.deleted")
    segments.look()
    assert (segments.gone, segments.gone_bytes) == (1, 10)


def test_what_a_process_read_from_the_disk_is_told() -> None:
    """By the kernel; of this one, anything."""
    assert read_from_disk(os.getpid()) >= 0
