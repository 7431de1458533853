"""Ports for servers that bind them later: reserved among all processes of this machine, not guessed.

The hazard: 1. a port is found free, by binding and closing it; 2. another process does the same, or the
system gives that port to an outgoing connection; 3. the server cannot bind. So the ports lie below those that
the system gives away by itself, and each stays locked until the process that reserved it ends.
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

# Above the ports of Ray's workers (10,002 to 19,999), below those of outgoing connections (from 32,768 on).
PORTS = range(20_000, 32_000)
# One for all programs of a user, wherever their own temporary folders are. A byte in it stands for a port.
_LOCK_FILE = Path(f"/tmp/headrace-ports-{os.getuid()}")  # noqa: S108 - opened without following links


class _Reservations:
    """Of this process. The system ends a lock when the process ends, and when any of its descriptors of the
    file is closed: so there is one, and it stays open."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.descriptor: int | None = None
        self.taken: set[int] = set()


_OWN = _Reservations()


def reserve_ports(count: int, among: Sequence[int] = PORTS) -> list[int]:
    """`count` ports on which nothing listens, and that no other caller on this machine gets before this
    process ends. Errors: OSError (EADDRNOTAVAIL) when there are not so many."""
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
            raise OSError(errno.EADDRNOTAVAIL, f"{count} free ports were asked for, {len(found)} are left")
        return found


def _lock(descriptor: int, port: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_free(port: int) -> bool:
    """Whether nothing listens on it, on any address of this machine."""
    try:
        with socket.create_server(("", port)):
            return True
    except OSError:
        return False
