"""Run simulations: `make sim SEED=123` replays one run, `make sim SEED=1 COUNT=300` runs 300 and counts.

Every seed runs every simulation (SIM=name: only that one). The last line is the result; the exit code is 1 if
a run broke a law, after printing the seed, the broken law, and the command that replays it with a trace.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fakes"), str(HERE.parents[1])]

gc.disable()  # the imports leave no garbage
from headrace.runtime.compiled_io import CompiledFinder  # noqa: E402

# Compiled modules gain nothing here: nearly all of their calls come from Python or go to it.
sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, CompiledFinder)]

from seeds import SIMULATIONS, run_all, run_one  # noqa: E402


def main() -> int:
    """Parse the command line, run the seeds, print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--sim", choices=tuple(SIMULATIONS), default=None)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trace", default="", help="write the trace of a single run to this file")
    asked = parser.parse_args()
    names = [asked.sim] if asked.sim else list(SIMULATIONS)
    runs = [(name, seed) for seed in range(asked.seed, asked.seed + asked.count) for name in names]
    begin = time.monotonic()
    outcomes = [run_one(*runs[0], asked.trace)] if len(runs) == 1 else run_all(runs, asked.jobs)
    seconds = time.monotonic() - begin
    faulty = [outcome for outcome in outcomes if outcome.fault]
    for outcome in faulty:
        sys.stderr.write(outcome.fault)
        sys.stderr.write(f"again: make sim SIM={outcome.name} SEED={outcome.seed} TRACE=trace.txt\n")
    last = asked.seed + asked.count - 1
    trace = f", trace {outcomes[0].trace_hash}" if len(outcomes) == 1 else ""
    virtual_s = sum(outcome.virtual_ms for outcome in outcomes) // 1000
    sys.stdout.write(
        f"sim {'+'.join(names)}: seeds {asked.seed}..{last}: {len(outcomes) - len(faulty)} clean, "
        f"{len(faulty)} failed, {sum(o.events for o in outcomes)} events, {virtual_s} virtual s "
        f"in {seconds:.1f} s: {asked.count / seconds:.1f} seeds/s{trace}\n"
    )
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
