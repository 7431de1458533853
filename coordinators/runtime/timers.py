"""The timers of all shards of a node on one timing wheel; each shard has a view of its own timers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ...runtime.timing_wheel import Timer, TimingWheel
    from ...storage_node.embedded.contract import Now
    from .ports import Outcome

    Action = Callable[[Now], Outcome]
    Wheel = TimingWheel["DueTimer"]


class DueTimer:
    """An entry of the timing wheel."""

    __slots__ = ("_action", "_key", "_owner")

    def __init__(self, owner: ShardTimers, key: Hashable, action: Action) -> None:
        self._owner = owner
        self._key = key
        self._action = action

    def fire(self, now: Now) -> None:
        """Run the action, unless the timer was cancelled or replaced after it expired."""
        if self._owner.is_set_as(self._key, self):
            self._owner.cancel(self._key)
            self._owner.run(self._action, now)


class ShardTimers:
    """The timers of one shard by key. Implements Timers."""

    def __init__(self, wheel: Wheel, run: Callable[[Action, Now], None]) -> None:
        """`run` runs the action's decision and carries out its outcome."""
        self.run = run
        self._wheel = wheel
        self._timers: dict[Hashable, Timer[DueTimer]] = {}

    def set(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        self.cancel(key)
        self._timers[key] = self._wheel.add(DueTimer(self, key, action), deadline_ms)

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._wheel.cancel(timer)

    def deadline_of(self, key: Hashable) -> int | None:
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def is_set_as(self, key: Hashable, due: DueTimer) -> bool:
        """Whether `due` is still the timer of `key`."""
        timer = self._timers.get(key)
        return timer is not None and timer.item is due

    def clear(self) -> None:
        for key in list(self._timers):
            self.cancel(key)

    def __len__(self) -> int:
        return len(self._timers)
