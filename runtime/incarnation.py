"""The incarnation id of a server process, which is never reused. Pure.

A host that supervises processes (Ray) has ids for processes and machines. The incarnation id with which a
node registers combines both, so that a notification of an ended process can be matched with a registration; a
restarted process has another id.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

HALF = 8  # bytes of each part; with 10,000 ids the chance that two are equal is below 1e-11


def incarnation_of(machine: bytes, process: bytes) -> bytes:
    """The 16 bytes for a process; both arguments are ids of the host, of any length and never reused."""
    return _half(machine) + _half(process)


@dataclass(frozen=True, slots=True)
class Deaths:
    """Ended processes, and ended machines with all their processes."""

    machines: frozenset[bytes] = frozenset()
    processes: frozenset[bytes] = frozenset()

    @staticmethod
    def of(*, machines: set[bytes] | None = None, processes: set[bytes] | None = None) -> Deaths:
        """From ids of the host, as `incarnation_of` takes them."""
        return Deaths(frozenset(map(_half, machines or ())), frozenset(map(_half, processes or ())))

    def __bool__(self) -> bool:
        return bool(self.machines or self.processes)

    def covers(self, incarnation_id: bytes) -> bool:
        """Whether the process with this incarnation id has ended."""
        return incarnation_id[:HALF] in self.machines or incarnation_id[HALF:] in self.processes


def _half(host_id: bytes) -> bytes:
    return sha256(host_id).digest()[:HALF]
