"""What each listener for Kafka clients has counted, and its metrics. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.telemetry import process_table as table
from ...runtime.telemetry.node_table import REQUEST_BYTES_HELD, RESPONSE_BYTES_HELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...runtime.telemetry.samples import Samples

_ALL = "kafka"  # the label of what the listeners share


@dataclass(slots=True)
class Tally:
    """Totals of one listener since the start."""

    accepted: int = 0
    refused: int = 0
    failed_handshakes: int = 0
    authentications: int = 0
    failed_authentications: int = 0


class Tallies:
    """By listener."""

    def __init__(self) -> None:
        self._by_name: dict[str, Tally] = {}  # Bound: configured listeners

    def of(self, name: str) -> Tally:
        return self._by_name.setdefault(name, Tally())

    @property
    def accepted(self) -> int:
        """Of all listeners, as the others."""
        return sum(each.accepted for each in self._by_name.values())

    @property
    def refused(self) -> int:
        return sum(each.refused for each in self._by_name.values())

    @property
    def failed_handshakes(self) -> int:
        return sum(each.failed_handshakes for each in self._by_name.values())

    @property
    def failed_authentications(self) -> int:
        return sum(each.failed_authentications for each in self._by_name.values())

    def measure(
        self,
        samples: Samples,
        connections: Iterable[str],
        expiries_s: Mapping[str, float | None],
        *,
        held_bytes: int,
        pending_bytes: int,
    ) -> None:
        """Add the values of the listeners' metrics. `connections`: the listener of each; `expiries_s`: of the
        certificates in use."""
        open_now = Counter(connections)
        for name, tally in self._by_name.items():
            samples.set(table.CONNECTIONS, open_now[name], name)
            samples.set(table.ACCEPTED, tally.accepted, name)
            samples.set(table.REFUSED, tally.refused, name)
            samples.set(table.HANDSHAKES_FAILED, tally.failed_handshakes, name)
            samples.set(table.AUTHENTICATED, tally.authentications, name)
            samples.set(table.AUTHENTICATIONS_FAILED, tally.failed_authentications, name)
        for name, expiry_s in expiries_s.items():
            if expiry_s is not None:
                samples.set(table.CERTIFICATE_EXPIRY, expiry_s, name)
        samples.set(REQUEST_BYTES_HELD, held_bytes, _ALL)
        samples.set(RESPONSE_BYTES_HELD, pending_bytes, _ALL)
