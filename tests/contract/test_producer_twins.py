"""The tests of the producer on the other codec: both ways into a batch keep the same promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from headrace.protocol.records.codec import active_codec

ROOT = Path(__file__).parent.parent.parent
OTHER = "python" if active_codec().name == "compiled" else "compiled"


@pytest.mark.parametrize(
    "chosen",
    [
        ["tests/unit/clients/producer", "tests/unit/clients/sync"],
        ["tests/property/test_producer_chaos.py", "-k", "1 or same"],
    ],
    ids=["unit", "chaos"],
)
def test_the_other_codec_keeps_the_promises(chosen: list[str]) -> None:
    """In a process of its own, because a process has one codec."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen]
    environment = {**os.environ, "HEADRACE_CODEC": OTHER}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:]
