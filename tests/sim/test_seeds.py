"""`make sim` runs the seeds in worker processes and counts the results."""

from __future__ import annotations

import os
from typing import Self

import pytest
import seeds
from world import World

pytestmark = pytest.mark.sim


class Short:
    """A run of one event. Seed 13 breaks a law, seed 99 ends its process."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.world = World(seed, keep_trace=keep_trace)

    def run(self) -> Self:
        """Fail by the seed."""
        self.world.after(self.world.random.randrange(100), "event", lambda: None)
        self.world.run(100)
        assert self.world.seed != 13, "BrokenLaw"
        if self.world.seed == 99:
            os._exit(3)
        return self


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(seeds.SIMULATIONS, "short", Short)


@pytest.mark.parametrize("jobs", [1, 3])
def test_outcomes_are_in_the_order_of_the_runs(jobs: int) -> None:
    """Also with several processes at a time; a broken law does not end the other runs of its process."""
    runs = [("short", seed) for seed in range(1, 5 * seeds.RUNS_PER_PROCESS + 2)]
    outcomes = seeds.run_all(runs, jobs)
    assert [(outcome.name, outcome.seed) for outcome in outcomes] == runs
    assert [outcome.seed for outcome in outcomes if outcome.fault] == [13]
    assert "BrokenLaw" in outcomes[12].fault
    assert outcomes[20] == seeds.run_one("short", 21)


def test_a_process_that_ends_early_is_an_error() -> None:
    """Otherwise its runs would count as clean, or the parent would wait forever."""
    with pytest.raises(RuntimeError, match=r"'short', 99.* ended with 3"):
        seeds.run_all([("short", 1), ("short", 99)], 2)
