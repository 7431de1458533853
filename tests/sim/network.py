"""A simulated network: messages are late, lost, repeated, overtaken; links are cut, one way or both, or clog.

Ends have names (node ids); a message is a call that happens at the other end, or never. Whoever wants answers
and timeouts builds them on top, as over a real network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from world import World


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is; shares are of one."""

    min_delay_ms: int = 0
    mean_delay_ms: int = 2  # above the minimum, exponential
    loss: float = 0.0
    duplicate: float = 0.0
    is_ordered: bool = False  # as TCP: on one link nothing overtakes


FAIR = Weather()


class Network:
    """All links of one world."""

    def __init__(self, world: World, weather: Weather = FAIR) -> None:
        self.world = world
        self.weather = weather
        self.delivered = self.lost = 0
        self._random = world.stream("network")
        self._era = 0
        self._cut: set[tuple[Hashable, Hashable]] = set()  # asked for members only, never iterated
        self._clogged_until: dict[tuple[Hashable, Hashable], int] = {}
        self._last_at: dict[tuple[Hashable, Hashable], int] = {}
        self._changed_ms: dict[tuple[Hashable, Hashable], int] = {}  # by link: see `changed_ms`
        self._dropped_ms = 0

    def send(self, source: Hashable, target: Hashable, label: str, deliver: Callable[[], None]) -> None:
        """Let `deliver` happen at `target` some time, or never, or twice."""
        copies = 1
        if (source, target) in self._cut or self._random.random() < self.weather.loss:
            copies = 0
            self.lost += 1
            if (source, target) not in self._cut:
                self._changed_ms[source, target] = self.world.now_ms
        elif self._random.random() < self.weather.duplicate:
            copies = 2
        for _ in range(copies):
            self._launch((source, target), f"{source}>{target} {label}", deliver)

    def cut(self, source: Hashable, target: Hashable) -> None:
        """Nothing that is sent from `source` to `target` arrives; what is under way does."""
        if (source, target) not in self._cut:
            self._cut.add((source, target))
            self._changed_ms[source, target] = self.world.now_ms

    def separate(self, side: Iterable[Hashable], other: Iterable[Hashable]) -> None:
        """Cut every link between the two sides, both ways."""
        others = list(other)
        for one in side:
            for two in others:
                self.cut(one, two)
                self.cut(two, one)

    def clog(self, source: Hashable, target: Hashable, duration_ms: int) -> None:
        """What is sent from now on arrives only after `duration_ms`."""
        self._clogged_until[source, target] = self.world.now_ms + duration_ms
        self._changed_ms[source, target] = self.world.now_ms + duration_ms

    def drop(self) -> None:
        """What is under way never arrives, as when the switches lose their power, too."""
        self._era += 1
        self._dropped_ms = self.world.now_ms

    def heal(self) -> None:
        """All links work; the weather stays."""
        self._changed_ms |= dict.fromkeys(self._cut, self.world.now_ms)
        self._cut.clear()
        self._clogged_until.clear()

    def is_cut(self, source: Hashable, target: Hashable) -> bool:
        """Whether nothing gets from `source` to `target`."""
        return (source, target) in self._cut

    def changed_ms(self, one: Hashable, other: Hashable) -> int:
        """When the links between two ends last changed or lost a message: were cut, healed, clogged (then it
        is when the clog ends, which may be in the future); -1 if never."""
        both = ((one, other), (other, one))
        return max(self._dropped_ms, *(self._changed_ms.get(link, -1) for link in both))

    def _launch(self, link: tuple[Hashable, Hashable], label: str, deliver: Callable[[], None]) -> None:
        weather, now_ms = self.weather, self.world.now_ms
        delay_ms = weather.min_delay_ms
        if weather.mean_delay_ms:
            delay_ms += int(self._random.expovariate(1 / weather.mean_delay_ms))
        at_ms = max(now_ms, self._clogged_until.get(link, 0)) + delay_ms
        if weather.is_ordered:
            at_ms = max(at_ms, self._last_at.get(link, 0))
            self._last_at[link] = at_ms
        self.delivered += 1
        era = self._era
        self.world.after(at_ms - now_ms, label, lambda: deliver() if era == self._era else None)
