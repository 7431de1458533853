"""What a server process is called by those who watch over it: a name that ends with the process.

A host that supervises processes (Ray) has ids of its own for a process and for the machine under it. The
incarnation id under which a node registers is made of both, so that news of an end can be compared with a
registration, and only ever means that very process: one that was started anew has another id. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

HALF = 8  # bytes of each part; with 10,000 ids the chance that two are equal is below 1e-11


def incarnation_of(machine: bytes, process: bytes) -> bytes:
    """The 16 bytes for a process; both ids are the host's own, of any length and never used again."""
    return _half(machine) + _half(process)


@dataclass(frozen=True, slots=True)
class Deaths:
    """What has ended for good: processes one by one, and machines with all that ran on them."""

    machines: frozenset[bytes] = frozenset()
    processes: frozenset[bytes] = frozenset()

    @staticmethod
    def of(*, machines: set[bytes] | None = None, processes: set[bytes] | None = None) -> Deaths:
        """Named by the host's own ids, as `incarnation_of` takes them."""
        return Deaths(frozenset(map(_half, machines or ())), frozenset(map(_half, processes or ())))

    def __bool__(self) -> bool:
        return bool(self.machines or self.processes)

    def covers(self, incarnation_id: bytes) -> bool:
        """Whether the process with this incarnation id is among them."""
        return incarnation_id[:HALF] in self.machines or incarnation_id[HALF:] in self.processes


def _half(host_id: bytes) -> bytes:
    return sha256(host_id).digest()[:HALF]
