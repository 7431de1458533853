"""`headrace quickstart`: real lines through three storage nodes on Ray and back, whatever the input."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from headrace_command import Headrace

pytestmark = pytest.mark.ray


@pytest.fixture
def headrace(tmp_path: Path) -> Iterator[Headrace]:
    command = Headrace(tmp_path)
    try:
        yield command
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()


def assert_nothing_left(command: Headrace) -> None:
    """No process, no temp dir, no cluster file; on a Ray that was there, no actor."""
    command.wait_until_nothing_runs()
    assert list(command.temp.iterdir()) == []
    assert not list(command.home.rglob("*.json"))
    if command.ray_address != "local":
        assert command.actors("headrace-quickstart-") == []


@pytest.fixture
def on_a_ray(headrace: Headrace, ray_address: str) -> Headrace:
    """The command, for a Ray that is there."""
    headrace.ray_address = headrace.environment["RAY_ADDRESS"] = ray_address
    return headrace


def test_access_log_is_read_back_completely(on_a_ray: Headrace, tmp_path: Path) -> None:
    """Counts, checksums and the most frequent clients, counted from the log; nothing is left."""
    clients = [b"10.0.0.%d" % (n % 7 if n % 2 else 1) for n in range(30_000)]
    line = b'%s - - [10/Oct/2000:13:55:36 -0700] "GET /page/%d HTTP/1.0" 200 %d'
    path = tmp_path / "access.log"
    path.write_bytes(b"\n".join(line % (client, n, n * 7) for n, client in enumerate(clients)))
    out, errors = on_a_ray.run("quickstart", "--input", str(path), "-o", "json")
    result = json.loads(out)
    assert (result["lines_in"], result["lines_out"]) == (30_000, 30_000)
    assert result["checksum_in"] == result["checksum_out"]
    assert result["is_complete"] is True
    assert result["top_keys"][0] == {"key": "10.0.0.1", "lines": clients.count(b"10.0.0.1")}
    assert sum(place["records"] for place in result["partitions"]) == 30_000
    assert {place["node"] for place in result["partitions"]} == {"node-1", "node-2", "node-3"}
    assert "starting Ray" not in errors
    assert_nothing_left(on_a_ray)


def test_odd_bytes_a_path_with_spaces_and_the_text_report(headrace: Headrace, tmp_path: Path) -> None:
    """Binary bytes, CRLF, empty lines, a line past the limit of a message, no newline at the end. Of the
    checkout's path with spaces Ray's own helpers could not start, and took the cluster along midway."""
    (tmp_path / "my clone").mkdir()
    (tmp_path / "my clone" / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    headrace.python = str(tmp_path / "my clone" / ".venv" / "bin" / "python")
    path = tmp_path / "odd lines"
    path.write_bytes(b"\x00\xff\xfe\r\n\r\n\n" + b"x" * 3_000_000 + b"\nlast")
    out, errors = headrace.run("quickstart", "-i", str(path))
    text = out.decode()
    assert "ok: every line came back" in text
    assert "Most frequent keys" in text
    assert "node-1" in text
    assert "starting Ray" in errors
    assert_nothing_left(headrace)


def test_empty_file_is_zero_records(on_a_ray: Headrace, tmp_path: Path) -> None:
    """Not a failure; --keep leaves the files, and prints their folder."""
    path = tmp_path / "empty"
    path.write_bytes(b"")
    out, _ = on_a_ray.run("quickstart", "-i", str(path), "--keep")
    assert b"0 records" in out
    kept = list(on_a_ray.temp.iterdir())
    assert [folder.name.startswith("headrace-quickstart-") for folder in kept] == [True]
    assert str(kept[0]) in out.decode()
    on_a_ray.wait_until_nothing_runs()


def test_missing_input_is_refused(headrace: Headrace, tmp_path: Path) -> None:
    """Before anything is started."""
    _, errors = headrace.run("quickstart", "-i", str(tmp_path / "missing"), code=3)
    assert "missing" in errors
    (tmp_path / "folder").mkdir()
    headrace.run("quickstart", "-i", str(tmp_path / "folder"), code=1)
    assert_nothing_left(headrace)


@pytest.mark.parametrize(
    ("number", "face"),
    [(signal.SIGINT, "headrace"), (signal.SIGTERM, "on_a_ray")],
    ids=["SIGINT-own Ray", "SIGTERM-another Ray"],
)
def test_interrupt_cleans_up(
    request: pytest.FixtureRequest, tmp_path: Path, number: signal.Signals, face: str
) -> None:
    """Ctrl-C or a kill while sending: one word, and nothing is left."""
    headrace: Headrace = request.getfixturevalue(face)
    path = tmp_path / "large"
    path.write_bytes(b"some key and a value that repeats itself\n" * 1_000_000)
    process = headrace.start("quickstart", "-i", str(path))
    assert process.stderr is not None
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        if line.startswith("sending"):
            process.send_signal(number)
            break
    rest = threading.Thread(target=lambda: seen.extend(process.stderr or ()))
    rest.start()
    try:
        assert process.wait(300) == 130, "".join(seen)
        rest.join(300)
    finally:
        process.stdout.close()
        process.stderr.close()
    assert "Traceback" not in "".join(seen)
    assert_nothing_left(headrace)
