"""Lines of text for the quickstart: a file, a folder, the logs under /var/log, or process metrics."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOG_FOLDER = "/var/log"
MAX_FILES = 200
# Bound: total bytes of a folder's files; a single input file is read whole
MAX_FOLDER_BYTES = 64 * 1024 * 1024
SNIFF_BYTES = 8192
# Bound: one record. max.message.bytes is 1 MiB by default; a longer line is split into several records.
MAX_LINE_BYTES = 512 * 1024
SAMPLE_LINES = 1000
METRICS_SECONDS = 10.0
METRICS_INTERVAL_S = 0.5
_PACKED = {".gz", ".xz", ".bz2", ".zst", ".zip", ".journal"}


class InputError(HeadraceError):
    """The input is not readable text."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file to read; with `skip_bytes` only its last `size_bytes`."""

    path: Path
    size_bytes: int
    skip_bytes: int = 0


def input_files(path: str) -> list[TextFile]:
    """The file itself, or the text files of a folder.

    Errors: FileNotFoundError; InputError if it is neither, or a folder without text files.
    """
    source = Path(path).expanduser()
    file_stat = source.stat()
    if stat.S_ISDIR(file_stat.st_mode):
        files = text_files(source)
        if not files:
            raise InputError(f"no readable text files under {path}")
        return files
    if not stat.S_ISREG(file_stat.st_mode):
        raise InputError(f"{path} is neither a file nor a folder")
    with source.open("rb"):
        return [TextFile(source, file_stat.st_size)]


def text_files(folder: Path, budget_bytes: int = MAX_FOLDER_BYTES) -> list[TextFile]:
    """Readable, non-empty text files under `folder`, largest first, within `budget_bytes` in total.

    Links are not followed; of a file that exceeds the rest of the budget, only the end is read.
    """
    found: list[TextFile] = []
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            size_bytes = _text_size(path)
            if size_bytes and len(found) < MAX_FILES:
                found.append(TextFile(path, size_bytes))
    chosen: list[TextFile] = []
    for file in sorted(found, key=lambda file: (-file.size_bytes, str(file.path))):
        take = min(file.size_bytes, budget_bytes)
        if take <= 0:
            break
        chosen.append(TextFile(file.path, take, file.size_bytes - take))
        budget_bytes -= take
    return chosen


def read_lines(file: TextFile) -> Iterator[bytes]:
    """The lines of one file without line ends (LF or CRLF); a line above `MAX_LINE_BYTES` is split.

    A file with `skip_bytes` starts at the first whole line. Data appended during the read is ignored.
    """
    with file.path.open("rb") as stream:
        if file.skip_bytes:
            stream.seek(file.skip_bytes - 1)
            skipped = stream.readline(file.size_bytes + 1)
            left = file.size_bytes - len(skipped) + 1
        else:
            left = file.size_bytes
        is_inside = False  # the last piece did not end its line
        while left > 0:
            piece = stream.readline(min(left, MAX_LINE_BYTES))
            if not piece:
                return  # the file was truncated during the read
            left -= len(piece)
            if not (is_inside and piece == b"\n"):
                yield _without_end(piece)
            is_inside = not piece.endswith(b"\n")


def sample_lines(file: TextFile) -> list[bytes]:
    """The first lines of a file, enough to choose the key field."""
    return [line for line, _ in zip(read_lines(file), range(SAMPLE_LINES), strict=False)]


def process_metrics(seconds: float = METRICS_SECONDS) -> Iterator[bytes]:
    """Lines of process metrics of this machine: time, name, pid, CPU seconds, resident bytes."""
    import psutil

    deadline = time.monotonic() + seconds
    while True:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        for process in psutil.process_iter(["name", "pid", "cpu_times", "memory_info"]):
            info = process.info
            name = (info["name"] or "unknown").replace(" ", "_")
            cpu = info["cpu_times"].user + info["cpu_times"].system if info["cpu_times"] else 0.0
            memory = info["memory_info"].rss if info["memory_info"] else 0
            yield f"{stamp} {name} {info['pid']} {cpu:.2f} {memory}".encode()
        if time.monotonic() + METRICS_INTERVAL_S > deadline:
            return
        time.sleep(METRICS_INTERVAL_S)


def total_bytes(files: Sequence[TextFile]) -> int:
    """The number of bytes that will be read of all files."""
    return sum(file.size_bytes for file in files)


def _text_size(path: Path) -> int:
    """The size of a readable text file, 0 for anything else."""
    if path.suffix in _PACKED:
        return 0
    try:
        file_stat = path.lstat()
        if not stat.S_ISREG(file_stat.st_mode) or not file_stat.st_size:
            return 0
        with path.open("rb") as stream:
            head = stream.read(SNIFF_BYTES)
    except OSError:
        return 0
    return 0 if b"\0" in head else file_stat.st_size


def _without_end(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return line[:-2]
    return line[:-1] if line.endswith(b"\n") else line
