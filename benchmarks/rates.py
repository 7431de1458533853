"""What each system reached in the cells before, and so what half of the slower one's most is. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from .replicated import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

# of the slower system, by how many nodes, when the cells that tell it do not run
FALLBACK_RATES = {1: 200_000, NODES: 40_000}
# the faces whose rates tell what a system can do, by how many nodes; Kafka's client for both has one
_TOLD_BY = {1: ("produce+callback", "send"), NODES: ("produce", "send")}
_TOLD_BY_KAFKAS = ("produce+callback",)
_READ_BY = ("consume", "poll")


class _Load(NamedTuple):
    """Rates of these are comparable: so many nodes, this client ("": each its own), this size."""

    nodes: int
    client: str
    size: int

    @classmethod
    def of(cls, nodes: int, spec: Mapping[str, Any]) -> _Load:
        """That of a cell."""
        return cls(nodes, spec.get("client", ""), spec["size"])


class Rates:
    """Records a second, of all cells that tell one."""

    def __init__(self) -> None:
        self._found: defaultdict[_Load, dict[str, list[float]]] = defaultdict(dict)

    def produced(self, system: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        """By a cell; those of other faces and of compressed records do not count."""
        told_by = _TOLD_BY_KAFKAS if "client" in spec else _TOLD_BY[nodes]
        if spec["face"] in told_by and spec.get("compression") is None:
            self._note(f"{system} produce", nodes, spec, rate)

    def consumed(self, system: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        """By one consumer; those of other faces do not count."""
        if spec["face"] in _READ_BY and spec.get("consumers", 1) == 1:
            self._note(f"{system} consume", nodes, spec, rate)

    def slowest(self, nodes: int, spec: Mapping[str, Any]) -> float:
        """What the slower system produces and reads of such records."""
        found = self._found[_Load.of(nodes, spec)].values()
        return min(map(statistics.median, found), default=FALLBACK_RATES[nodes])

    def share(self, nodes: int, spec: Mapping[str, Any]) -> int:
        """The `share` of it that a cell asks for, and not more than `most` if it says that."""
        return int(min(self.slowest(nodes, spec) * spec["share"], spec.get("most", math.inf)))

    def _note(self, what: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        self._found[_Load.of(nodes, spec)].setdefault(what, []).append(rate)
