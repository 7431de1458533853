"""A simulated network: messages are delayed, lost, duplicated or reordered; links are cut, in one direction
or both, or clogged.

Endpoints have names (node ids); a message is a call at the other endpoint. Responses, timeouts and
connections are built on top, see sim_transport.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from world import World


@dataclass(frozen=True, slots=True)
class Weather:
    """The quality of the network; `loss` and `duplicate` are probabilities."""

    min_delay_ms: int = 0
    mean_delay_ms: int = 2  # above the minimum, exponential
    loss: float = 0.0
    duplicate: float = 0.0
    is_ordered: bool = False  # as TCP: messages of one link keep their order


FAIR = Weather()


class Network:
    """All links of one simulation."""

    def __init__(self, world: World, weather: Weather = FAIR) -> None:
        self.world = world
        self.weather = weather
        self.delivered = self.lost = 0
        self._draw = world.stream("network").random
        self._era = 0
        self._cut: set[tuple[Hashable, Hashable]] = set()  # never iterated
        self._clogged_until: dict[tuple[Hashable, Hashable], int] = {}
        self._last_at: dict[tuple[Hashable, Hashable], int] = {}
        self._changed_ms: dict[tuple[Hashable, Hashable], int] = {}  # by link: see `changed_ms`
        self._dropped_ms = 0

    def send(self, source: Hashable, target: Hashable, label: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` after a delay; not if the message is lost, twice if it is duplicated."""
        link, weather = (source, target), self.weather
        if link in self._cut:
            self.lost += 1
            return
        if self._draw() < weather.loss:
            self.lost += 1
            self._changed_ms[link] = self.world.now_ms
            return
        text, is_twice = f"{source}>{target} {label}", self._draw() < weather.duplicate
        self._launch(link, text, deliver)
        if is_twice:
            self._launch(link, text, deliver)

    def cut(self, source: Hashable, target: Hashable) -> None:
        """Lose every new message from `source` to `target`; those in flight arrive."""
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
        """Delay new messages from `source` to `target` until `duration_ms` from now."""
        self._clogged_until[source, target] = self.world.now_ms + duration_ms
        self._changed_ms[source, target] = self.world.now_ms + duration_ms

    def drop(self) -> None:
        """Lose all messages in flight, as in a power loss of the network switches."""
        self._era += 1
        self._dropped_ms = self.world.now_ms

    def heal(self) -> None:
        """End all cuts and clogs; the weather stays."""
        self._changed_ms |= dict.fromkeys(self._cut, self.world.now_ms)
        self._cut.clear()
        self._clogged_until.clear()

    def is_cut(self, source: Hashable, target: Hashable) -> bool:
        """Whether the link from `source` to `target` is cut."""
        return (source, target) in self._cut

    def changed_ms(self, one: Hashable, other: Hashable) -> int:
        """When the links between two endpoints were last cut, healed, clogged (then the end of the clog,
        which may be in the future) or lost a message; -1 if never."""
        both = ((one, other), (other, one))
        return max(self._dropped_ms, *(self._changed_ms.get(link, -1) for link in both))

    def _launch(self, link: tuple[Hashable, Hashable], label: str, deliver: Callable[[], None]) -> None:
        weather, now_ms = self.weather, self.world.now_ms
        delay_ms = weather.min_delay_ms
        if weather.mean_delay_ms:
            # `expovariate`, which would call as many functions as the rest
            delay_ms += int(-log(1.0 - self._draw()) / (1 / weather.mean_delay_ms))
        at_ms = now_ms + delay_ms
        if self._clogged_until:
            at_ms = max(now_ms, self._clogged_until.get(link, 0)) + delay_ms
        if weather.is_ordered:
            last_ms = self._last_at.get(link, 0)
            if last_ms > at_ms:
                at_ms = last_ms
            self._last_at[link] = at_ms
        self.delivered += 1
        era = self._era
        self.world.after(at_ms - now_ms, label, lambda: deliver() if era == self._era else None)
