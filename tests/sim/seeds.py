"""Runs simulations by seed, in worker processes, each with several runs in sequence."""

from __future__ import annotations

import gc
import traceback
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cluster
import quorum
import sim_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# name -> class of a run, which has a `world`; `run` raises AssertionError for a broken law
SIMULATIONS: dict[str, Callable[..., Any]] = {
    "quorum": quorum.SimQuorum,
    "cluster": cluster.SimCluster,
    "streams": sim_tasks.SimTasks,
}
RUNS_PER_PROCESS = 8  # a run leaves about 10 MB of memory


class Outcome(NamedTuple):
    """The result of one run. `fault` is empty if it was clean; `trace` has its last lines if requested."""

    name: str
    seed: int
    fault: str
    trace_hash: str
    virtual_ms: int
    events: int


def run_one(name: str, seed: int, trace_path: str = "") -> Outcome:
    """Run one simulation with one seed. With `trace_path`, all its events are written there, and the clients'
    history to a JSONL file in the same folder."""
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


def run_all(runs: Sequence[tuple[str, int]], jobs: int) -> list[Outcome]:
    """Do all runs (simulation, seed) in `jobs` processes; returns the outcomes in the same order. Errors:
    RuntimeError if a process ends without its outcomes.

    A process ends after `RUNS_PER_PROCESS` runs and does not collect garbage, because the search for the
    reference cycles of a finished run takes a tenth of its time.
    """
    starts = range(0, len(runs), RUNS_PER_PROCESS)
    lots = [runs[start : start + RUNS_PER_PROCESS] for start in starts]
    found: dict[int, list[Outcome]] = {}
    running: dict[Any, tuple[int, Any]] = {}
    context = get_context("fork")
    for number, lot in enumerate(lots):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run_lot, args=(lot, sender))
        process.start()
        sender.close()
        running[receiver] = (number, process)
        while running and (len(running) == jobs or number == len(lots) - 1):
            for ready in wait(list(running)):
                ended, process = running.pop(ready)
                found[ended] = _outcomes(ready, process, lots[ended])
    return [outcome for number in range(len(lots)) for outcome in found[number]]


def _run_lot(lot: Sequence[tuple[str, int]], sender: Any) -> None:
    gc.disable()
    sender.send([run_one(name, seed) for name, seed in lot])


def _outcomes(receiver: Any, process: Any, lot: Sequence[tuple[str, int]]) -> list[Outcome]:
    try:
        outcomes: list[Outcome] = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process of {lot[0]} to {lot[-1]} ended with {process.exitcode}") from None
    process.join()
    return outcomes
