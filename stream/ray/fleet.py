"""Which workers should run, and what replaces those that end. Pure.

Source for the aim: a loop that compares what should run with what runs, as controllers of Kubernetes and Ray
Serve do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from .plan import WorkerId

if TYPE_CHECKING:
    from .config import WorkersConfig


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Effect: start this process."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Effect: let this process commit, close its stores and end. Its end is reported with `ended`."""

    worker: WorkerId


Effect = StartWorker | StopWorker


class FleetState(Enum):
    """The life of an application on Ray. FAILED: ended by errors; STOPPED: as requested."""

    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class WorkerState(Enum):
    """The life of a worker. WAITING: until it is restarted; STARTING: until its instance runs for the first
    time."""

    WAITING = "WAITING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"


@dataclass(slots=True)
class Slot:
    """One worker, over the processes that it has had. `life` is the number of the newest one."""

    life: int = 0
    state: WorkerState = WorkerState.WAITING
    start_at_ms: int = 0
    running_since_ms: int | None = None
    failures: int = 0  # in a row
    restarts: int = 0
    error: str = ""


class Fleet:
    """The slots 1 to `target`, and those above that are stopping."""

    def __init__(self, config: WorkersConfig, target: int) -> None:
        self._config = config
        self.target = target
        self.slots: dict[int, Slot] = {}
        self.error = ""
        self._ends_as: FleetState | None = None
        self._lives: dict[int, int] = {}  # of slots that are gone

    @property
    def state(self) -> FleetState:
        """STOPPED and FAILED when no worker is left."""
        if self._ends_as is None:
            return FleetState.RUNNING
        return FleetState.STOPPING if self.slots else self._ends_as

    # --- events ---------------------------------------------------------------------------------------------

    def scale(self, target: int) -> None:
        """Run this many workers. An application that ends keeps ending."""
        if self._ends_as is None:
            self.target = target

    def stop(self) -> None:
        """End all workers."""
        self._end(FleetState.STOPPED, "")

    def fail(self, error: str) -> None:
        """End all workers because of an error of the application."""
        self._end(FleetState.FAILED, error)

    def adopt(self, worker: WorkerId) -> None:
        """This process runs already."""
        slot = self.slots.setdefault(worker.slot, Slot())
        if worker.life > slot.life:
            slot.life, slot.state = worker.life, WorkerState.STARTING

    def running(self, worker: WorkerId, now_ms: int) -> None:
        """The instance of this process runs."""
        slot = self._current(worker)
        if slot is not None and slot.state is WorkerState.STARTING:
            slot.state, slot.running_since_ms = WorkerState.RUNNING, now_ms

    def ended(self, worker: WorkerId, now_ms: int, error: str) -> None:
        """This process has ended, with an error or because of one; or it was stopped."""
        slot = self._current(worker)
        if slot is None:
            return
        if slot.state is WorkerState.STOPPING:
            self._lives[worker.slot] = self.slots.pop(worker.slot).life
            return
        since_ms, slot.running_since_ms = slot.running_since_ms, None
        if since_ms is not None and now_ms - since_ms >= self._config.healthy_ms:
            slot.failures = 0
        slot.failures += 1
        slot.restarts += 1
        slot.error = error
        slot.state, slot.start_at_ms = WorkerState.WAITING, now_ms + self._backoff_ms(slot.failures)
        most = self._config.max_failures
        wanted = [self.slots.get(number) for number in range(1, self.target + 1)]
        if most and all(each is not None and each.failures >= most for each in wanted):
            self.fail(f"each of {self.target} workers failed {most} times in a row; the last error: {error}")

    # --- what to do -----------------------------------------------------------------------------------------

    def step(self, now_ms: int) -> tuple[Effect, ...]:
        """What has to be done now. Each effect is returned once."""
        effects: list[Effect] = []
        for number in range(1, self.target + 1):
            self.slots.setdefault(number, Slot(self._lives.get(number, 0), start_at_ms=now_ms))
        for number, slot in sorted(self.slots.items()):
            if number > self.target:
                if slot.state is WorkerState.WAITING:
                    self._lives[number] = self.slots.pop(number).life
                elif slot.state is not WorkerState.STOPPING:
                    slot.state = WorkerState.STOPPING
                    effects.append(StopWorker(WorkerId(number, slot.life)))
            elif slot.state is WorkerState.WAITING and slot.start_at_ms <= now_ms:
                slot.life += 1
                slot.state = WorkerState.STARTING
                effects.append(StartWorker(WorkerId(number, slot.life)))
        return tuple(effects)

    # --- internals ------------------------------------------------------------------------------------------

    def _end(self, state: FleetState, error: str) -> None:
        if self._ends_as is None:
            self._ends_as, self.error, self.target = state, error, 0

    def _current(self, worker: WorkerId) -> Slot | None:
        slot = self.slots.get(worker.slot)
        is_current = slot is not None and slot.life == worker.life and slot.state is not WorkerState.WAITING
        return slot if is_current else None

    def _backoff_ms(self, failures: int) -> int:
        """None before the first restart: its tasks wait for nothing else."""
        if failures <= 1:
            return 0
        longest = self._config.restart_backoff_max_ms
        return min(self._config.restart_backoff_ms << min(failures - 2, 30), longest)
