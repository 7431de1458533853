"""The timers of all shards of a node on one wheel; each shard sees only its own. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ...runtime.timing_wheel import Timer, TimingWheel
    from .ports import Now, Outcome

    Action = Callable[[Now], Outcome]
    Wheel = TimingWheel["DueTimer"]


class DueTimer:
    """What the wheel hands out."""

    __slots__ = ("_action", "_key", "_owner")

    def __init__(self, owner: ShardTimers, key: Hashable, action: Action) -> None:
        self._owner = owner
        self._key = key
        self._action = action

    def fire(self, now: Now) -> None:
        """Act, unless it was cancelled or replaced after it had been handed out."""
        if self._owner.is_set_as(self._key, self):
            self._owner.cancel(self._key)
            self._owner.run(self._action, now)


class ShardTimers:
    """Timers of one shard, by key. Fulfils Timers."""

    def __init__(self, wheel: Wheel, run: Callable[[Action, Now], None]) -> None:
        """`run` has an action decide and carries out its outcome."""
        self.run = run
        self._wheel = wheel
        self._timers: dict[Hashable, Timer[DueTimer]] = {}

    def set(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Have `action` decide at `deadline_ms`."""
        self.cancel(key)
        self._timers[key] = self._wheel.add(DueTimer(self, key, action), deadline_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget it, if it is there."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._wheel.cancel(timer)

    def deadline_of(self, key: Hashable) -> int | None:
        """When it is due, None if it is not set."""
        timer = self._timers.get(key)
        return None if timer is None else timer.deadline_ms

    def is_set_as(self, key: Hashable, due: DueTimer) -> bool:
        """Whether this very timer is what is set."""
        timer = self._timers.get(key)
        return timer is not None and timer.item is due

    def clear(self) -> None:
        """Forget all."""
        for key in list(self._timers):
            self.cancel(key)

    def __len__(self) -> int:
        return len(self._timers)
