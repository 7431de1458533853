"""The rates that cells reached, from which open loops take a share of the slower system's. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from ..constants import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

# records/s of the slower system by number of nodes, when the cells that measure it do not run
DEFAULT_RATES = {1: 200_000, NODES: 40_000}
# the APIs whose rates count, by number of nodes; with Kafka's client for both systems there is one
_PRODUCING = {1: ("produce+callback", "send"), NODES: ("produce", "send")}
_PRODUCING_BY_KAFKA_CLIENT = ("produce+callback",)
_CONSUMING = ("consume", "poll")


class _Load(NamedTuple):
    """Rates of one load are comparable. `client`: "" when each system is measured with its own."""

    nodes: int
    client: str
    size: int

    @classmethod
    def of(cls, nodes: int, spec: Mapping[str, Any]) -> _Load:
        return cls(nodes, spec.get("client", ""), spec["size"])


class Rates:
    """Records per second of the cells that ran so far."""

    def __init__(self) -> None:
        self._rates: defaultdict[_Load, dict[str, list[float]]] = defaultdict(dict)

    def produced(self, system: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        """Of a produce cell; other APIs and compressed records do not count."""
        counting = _PRODUCING_BY_KAFKA_CLIENT if "client" in spec else _PRODUCING[nodes]
        if spec["api"] in counting and spec.get("compression") is None:
            self._add(f"{system} produce", nodes, spec, rate)

    def consumed(self, system: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        """Of a consume cell; other APIs and several consumers do not count."""
        if spec["api"] in _CONSUMING and spec.get("consumers", 1) == 1:
            self._add(f"{system} consume", nodes, spec, rate)

    def slowest(self, nodes: int, spec: Mapping[str, Any]) -> float:
        """The smallest median of both systems, producing and consuming, for records of this size."""
        rates = self._rates[_Load.of(nodes, spec)].values()
        return min(map(statistics.median, rates), default=DEFAULT_RATES[nodes])

    def share(self, nodes: int, spec: Mapping[str, Any]) -> int:
        """The spec's `share` of it, at most its `most`."""
        return int(min(self.slowest(nodes, spec) * spec["share"], spec.get("most", math.inf)))

    def _add(self, name: str, nodes: int, spec: Mapping[str, Any], rate: float) -> None:
        self._rates[_Load.of(nodes, spec)].setdefault(name, []).append(rate)
