"""Ports for servers that bind them later, reserved among all processes of this machine.

The hazard of probing: 1. a port is found free by binding and closing it; 2. another process does the same, or
the system assigns that port to an outgoing connection; 3. the server cannot bind. So the ports are below the
system's ephemeral range, and each stays locked until the process that reserved it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from random import SystemRandom
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Above the ports of Ray's workers (10,002 to 19,999), below ephemeral ports (from 32,768 on).
PORTS = range(20_000, 32_000)
# One file for all programs of a user, independent of TMPDIR. A byte in it represents a port.
_LOCK_FILE = Path(f"/tmp/headrace-ports-{os.getuid()}")  # noqa: S108 - opened without following links


class _Reservations:
    """The reservations of this process. The system releases a lock when the process ends, or when any of its
    descriptors of the file is closed: so there is a single one, which stays open."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.descriptor: int | None = None
        self.taken: set[int] = set()


_OWN = _Reservations()


def reserve_ports(count: int, among: Sequence[int] = PORTS) -> list[int]:
    """`count` ports on which no server listens, reserved on this machine until this process ends. Errors:
    OSError (EADDRNOTAVAIL) if there are not enough."""
    with _OWN.lock:
        if _OWN.descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            _OWN.descriptor = os.open(_LOCK_FILE, flags, 0o600)
        found: list[int] = []
        for port in SystemRandom().sample(among, len(among)):
            if len(found) == count:
                break
            if port not in _OWN.taken and _lock(_OWN.descriptor, port):
                _OWN.taken.add(port)
                if _is_free(port):
                    found.append(port)
        if len(found) < count:
            raise OSError(
                errno.EADDRNOTAVAIL, f"{count} free ports were requested, {len(found)} are available"
            )
        return found


def _lock(descriptor: int, port: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_free(port: int) -> bool:
    """Whether no server listens on it, on any address of this machine."""
    try:
        with socket.create_server(("", port)):
            return True
    except OSError:
        return False
