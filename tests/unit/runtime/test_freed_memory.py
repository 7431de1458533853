"""Memory that a consumer freed serves the next fetch."""

import os
import platform
import subprocess
import sys

import pytest

# Frames of a fetch, freed and made again: page faults of the rounds after the first.
ROUNDS = """
import resource, sys
from headrace.runtime.freed_memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for number in range(6):
    before = faults()
    frames = [b"x" * 1_500_000 for _ in range(20)]
    del frames
    if number:
        print(faults() - before)
"""


def faults(mode: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, mode], capture_output=True, text=True, check=True, env=environment
    )
    return sum(map(int, done.stdout.split()))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc")
def test_freed_pages_are_reused() -> None:
    """Five rounds of 30 MB touch 36,000 pages; reused, hardly any is new."""
    assert faults("keep") < 5_000
    assert faults("leave") > 20_000, "if this fails, glibc has learned it: the module can go"


# Small blocks with one at the end that stays: glibc keeps all of it by itself.
HOLES = """
from pathlib import Path
from headrace.runtime.freed_memory import give_memory_back
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
blocks = [bytes(2_000) for _ in range(50_000)]
last = bytes(2_000)
del blocks
before = resident()
give_memory_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc")
def test_memory_of_the_start_is_returned() -> None:
    """100 MB of freed blocks below one that is in use."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50_000_000


AGAIN = """
import resource
from headrace.runtime.freed_memory import keep_freed_memory
keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    keep_freed_memory()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_second_call_allocates_no_memory() -> None:
    """The block of a second time would be cleared, 8,000 pages: a millisecond for each consumer."""
    done = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000
