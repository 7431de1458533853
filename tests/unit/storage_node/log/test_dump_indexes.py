"""Index entries in a dump, checked by themselves and against the log."""

import struct

from fake_files import FakeFiles
from headrace.storage_node.log.dump_indexes import IndexCheck, dump_offset_index, dump_time_index
from log_rig import NOW, append, batch, open_log

NAME = f"/d/t-0/{0:020d}"


def sealed() -> FakeFiles:
    """A sealed segment of six batches with an entry for nearly each."""
    files = FakeFiles()
    log = open_log(files, index_interval_bytes=0)
    for number in range(6):
        append(log, batch(2, timestamp=NOW + 1_000 * number))
    log.roll(NOW)
    return files


def kinds(entries: object) -> list[str]:
    return [entry[0] for entry in entries]  # type: ignore[attr-defined]


def test_sound_index_has_no_faults() -> None:
    """Offsets and timestamps match the batches."""
    files = sealed()
    check = IndexCheck(files, f"{NAME}.log")
    offsets = list(dump_offset_index(files.content(f"{NAME}.index"), 0, check))
    times = list(dump_time_index(files.content(f"{NAME}.timeindex"), 0, check))
    assert kinds(offsets) == ["offset_index"] * 5
    assert set(kinds(times)) == {"time_index"}
    assert offsets[0][1]["offset"] == 3


def test_wrong_entries_are_found_with_the_log() -> None:
    """Without the log they pass, because they rise."""
    check = IndexCheck(sealed(), f"{NAME}.log")
    data = struct.pack(">iiii", 3, 17, 9, 10**6)
    assert kinds(dump_offset_index(data, 0, None)) == ["offset_index"] * 2
    assert kinds(dump_offset_index(data, 0, check)) == ["offset_index", "fault"] * 2
    times = struct.pack(">qiqi", NOW, 1, NOW + 5_001, 999)
    assert kinds(dump_time_index(times, 0, None)) == ["time_index"] * 2
    assert kinds(dump_time_index(times, 0, check)) == ["time_index", "fault"] * 2


def test_repeated_entry_is_a_fault() -> None:
    """The entries of an index rise."""
    assert kinds(dump_offset_index(struct.pack(">ii", 3, 17) * 2, 0, None)).count("fault") == 1
    assert kinds(dump_time_index(struct.pack(">qi", NOW, 1) * 2, 0, None)).count("fault") == 1


def test_partial_entry_and_preallocated_tail() -> None:
    """Preallocated zeros are not entries; a partial entry is a fault."""
    entry = struct.pack(">ii", 3, 17)
    assert kinds(dump_offset_index(entry + bytes(80), 0, None)) == ["offset_index", "reserved"]
    assert kinds(dump_offset_index(entry + b"\1\2\3", 0, None)) == ["offset_index", "fault"]
    assert kinds(dump_offset_index(b"", 0, None)) == []


def test_damaged_log_is_reported_once() -> None:
    """The entries before the damage can still be compared."""
    files = sealed()
    index = files.content(f"{NAME}.index")
    files.put(f"{NAME}.log", files.content(f"{NAME}.log")[:-5])
    entries = list(dump_offset_index(index, 0, IndexCheck(files, f"{NAME}.log")))
    assert kinds(entries)[-1] == "fault"
    assert "left" in entries[-1][1]["why"]
