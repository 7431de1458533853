"""Checks that a simulation depends only on its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


SEED = 2  # a short run with most features


def check_seed_says_everything(simulation: Callable[[int], Any], name: str) -> None:
    """Two runs here and one in a process with another hash seed have equal traces; another seed differs."""
    here = {simulation(SEED).run().world.trace_hash for _ in range(2)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run.py")), str(SEED), "1", "--sim", name],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    here.add(done.stdout.split()[-1])
    assert len(here) == 1
    assert simulation(SEED + 1).run().world.trace_hash not in here
