"""That a simulation is a function of its seed alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


SEED = 2  # everything takes part in it, and it is short


def check_seed_says_everything(simulation: Callable[[int], Any], name: str) -> None:
    """The same trace twice here, and in a process with other hashes of strings; another seed, another one."""
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
