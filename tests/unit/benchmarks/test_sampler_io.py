"""The sampling profiler, with and without `perf`."""

import os
import signal
import sys
import time
import zlib
from pathlib import Path

import pytest
from headrace.benchmarks.sampler_io import Sampler

# Acknowledges a command after a visible effect; its report has one line.
PERF = """#!{python}
import os, sys
if sys.argv[1] == "report":
    print("  99.5%\\t/lib/libz.so\\t[.] crc32_z")
    sys.exit()
place = sys.argv.index("--control")
orders, answers = map(int, sys.argv[place + 1].removeprefix("fd:").split(","))
order = os.read(orders, 100).decode().strip()
open(os.path.join(os.path.dirname(__file__), "seen"), "w").write(order)
{then}
"""
ANSWERS = "os.write(answers, b'ack\\n'); os.read(orders, 1)"


def work() -> None:
    """50 ms of CPU time, most of it with the GIL."""
    block, ends_at = bytes(64), time.process_time() + 0.05
    while time.process_time() < ends_at:
        zlib.crc32(block)


def profile(folder: Path, *, is_by_signal: bool = False) -> str:
    sampler = Sampler(is_by_signal=is_by_signal)
    sampler.start()
    work()
    sampler.stop()
    sampler.write(folder / "table")
    return (folder / "table").read_text()


def use_perf(folder: Path, then: str, patch: pytest.MonkeyPatch) -> None:
    perf = folder / "perf"
    perf.write_text(PERF.format(python=sys.executable, then=then))
    perf.chmod(0o700)
    patch.setenv("PATH", str(folder))


def test_profile_shows_the_busy_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without perf."""
    monkeypatch.setenv("PATH", str(tmp_path))
    table = profile(tmp_path)
    assert "test_sampler_io.py:work" in table
    assert "perf: library" not in table
    assert "test_sampler_io.py:work" in (tmp_path / "table.stacks").read_text()


def test_signals_profile_a_loop_that_never_releases_the_gil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server's event loop; timer and switch interval are restored."""
    monkeypatch.setenv("PATH", str(tmp_path))
    before = sys.getswitchinterval(), signal.getsignal(signal.SIGPROF)
    try:
        assert "test_sampler_io.py:work" in profile(tmp_path, is_by_signal=True)
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
        assert sys.getswitchinterval() == before[0]
    finally:
        signal.signal(signal.SIGPROF, before[1])


def test_start_waits_until_perf_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table ends with perf's profile."""
    use_perf(tmp_path, ANSWERS, monkeypatch)
    sampler = Sampler()
    sampler.start()
    assert (tmp_path / "seen").read_text() == "enable"
    sampler.stop()
    sampler.write(tmp_path / "table")
    assert "libz.so crc32_z" in (tmp_path / "table").read_text()


def test_perf_without_permission_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends without acknowledging; no descriptor leaks."""
    use_perf(tmp_path, "", monkeypatch)
    before = len(os.listdir("/proc/self/fd"))
    assert "test_sampler_io.py:work" in profile(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
