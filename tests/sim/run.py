"""Run simulations: `make sim SEED=123` replays one run, `make sim SEED=1 COUNT=300` runs 300 and counts.

Every seed runs every simulation (SIM=name: only that one). The last line is the result; the exit code is 1 if
a run broke a law, after printing the seed, the broken law, and the command that replays it with a trace.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fakes")]

import cluster  # noqa: E402
import quorum  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# name -> the class of its runs; a run has a `world`, and `run` raises AssertionError for a broken law
SIMULATIONS: dict[str, Callable[..., Any]] = {"quorum": quorum.SimQuorum, "cluster": cluster.SimCluster}


class Outcome(NamedTuple):
    """The result of one run. `fault` is empty if it was clean; `trace` has its last lines if requested."""

    name: str
    seed: int
    fault: str
    trace_hash: str
    virtual_ms: int
    events: int


def run_one(name: str, seed: int, trace_path: str = "") -> Outcome:
    """One run of one simulation. With `trace_path`, all its events are written there, and the history of the
    clients beside it, as JSONL."""
    simulation = SIMULATIONS[name](seed, keep_trace=bool(trace_path))
    fault = ""
    try:
        simulation.run()
    except Exception:  # noqa: BLE001 - a bug may raise anything; it is counted and shown
        fault = traceback.format_exc()
    world = simulation.world
    if trace_path:
        Path(trace_path).write_text("\n".join(world.lines or ()) + "\n")
        if hasattr(simulation, "history"):
            Path(f"{trace_path}.history").write_text("\n".join(simulation.history.lines()) + "\n")
    return Outcome(name, seed, fault, world.trace_hash, world.now_ms, world.events)


def main() -> int:
    """Parse, run, count."""
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
    if asked.jobs > 1:
        with ProcessPoolExecutor(asked.jobs) as pool:
            outcomes = list(pool.map(run_one, *zip(*runs, strict=True), chunksize=4))
    else:
        outcomes = [run_one(name, seed, asked.trace if len(runs) == 1 else "") for name, seed in runs]
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
