"""The input of the quickstart."""

import os
from pathlib import Path

import pytest
from headrace.services import line_sources_io


def lines_of(path: Path, data: bytes) -> list[bytes]:
    path.write_bytes(data)
    return list(line_sources_io.read_lines(line_sources_io.TextFile(path, len(data))))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n\r\nb\r\n", [b"a", b"", b"b"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\x00\xff\n\xfe", [b"\x00\xff", b"\xfe"]),
    ],
)
def test_line_ends_and_bytes(tmp_path: Path, data: bytes, expected: list[bytes]) -> None:
    """LF, CRLF, no last newline, binary bytes, an empty file."""
    assert lines_of(tmp_path / "f", data) == expected


@pytest.mark.parametrize("extra", [-1, 0, 1, 7])
def test_long_line_is_split_into_records(tmp_path: Path, extra: int) -> None:
    """No byte is lost, no record is above the limit, and the line end adds no record."""
    long = b"x" * (2 * line_sources_io.MAX_LINE_BYTES + extra)
    pieces = lines_of(tmp_path / "f", long + b"\nshort\n")
    assert b"".join(pieces) == long + b"short"
    assert max(map(len, pieces)) <= line_sources_io.MAX_LINE_BYTES
    assert b"" not in pieces


def test_lines_appended_while_reading_are_left_out(tmp_path: Path) -> None:
    """The read of a growing log ends."""
    path = tmp_path / "f"
    path.write_bytes(b"a\nb\n")
    reader = line_sources_io.read_lines(line_sources_io.TextFile(path, 4))
    assert next(reader) == b"a"
    path.write_bytes(b"a\nb\nc\n")
    assert list(reader) == [b"b"]


@pytest.mark.parametrize(
    ("skip", "expected"), [(2, [b"bb", b"cc"]), (3, [b"bb", b"cc"]), (4, [b"cc"]), (8, [])]
)
def test_tail_of_a_large_file_begins_with_a_whole_line(
    tmp_path: Path, skip: int, expected: list[bytes]
) -> None:
    """Only the end of a large file is read."""
    path = tmp_path / "f"
    path.write_bytes(b"aa\nbb\ncc\n")
    assert list(line_sources_io.read_lines(line_sources_io.TextFile(path, 9 - skip, skip))) == expected


def test_folder_gives_its_text_files_within_a_budget(tmp_path: Path) -> None:
    """Binary, compressed, empty and linked files are left out; the largest come first."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "large.log").write_bytes(b"line\n" * 100)
    (tmp_path / "small.log").write_bytes(b"line\n" * 10)
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "packed.gz").write_bytes(b"abc")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "small.log")
    found = line_sources_io.text_files(tmp_path)
    assert [file.path.name for file in found] == ["large.log", "small.log"]
    assert line_sources_io.total_bytes(found) == 550
    cut = line_sources_io.text_files(tmp_path, budget_bytes=520)
    assert [(file.size_bytes, file.skip_bytes) for file in cut] == [(500, 0), (20, 30)]
    assert len(line_sources_io.text_files(tmp_path, budget_bytes=100)) == 1


def test_unreadable_inputs_are_errors(tmp_path: Path) -> None:
    """A missing file, a folder without text, a pipe."""
    with pytest.raises(FileNotFoundError):
        line_sources_io.input_files(str(tmp_path / "missing"))
    with pytest.raises(line_sources_io.InputError, match="no readable text files"):
        line_sources_io.input_files(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(line_sources_io.InputError, match="neither"):
        line_sources_io.input_files(str(tmp_path / "pipe"))


def test_named_file_is_read_whole(tmp_path: Path) -> None:
    """Whatever its size and content."""
    path = tmp_path / "binary.gz"
    path.write_bytes(b"\0\n")
    assert line_sources_io.input_files(str(path)) == [line_sources_io.TextFile(path, 2)]
    assert line_sources_io.sample_lines(line_sources_io.TextFile(path, 2)) == [b"\0"]


def test_process_metrics_name_this_process() -> None:
    """Without a log the input is one line per process."""
    lines = list(line_sources_io.process_metrics(0.0))
    pids = {line.split()[2] for line in lines}
    assert str(os.getpid()).encode() in pids
    assert all(len(line.split()) == 5 for line in lines)
