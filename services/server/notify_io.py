"""Reports to the service manager: ready, stopping, alive. Source: sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET, WATCHDOG = "NOTIFY_SOCKET", "WATCHDOG_USEC"


def notify(*lines: str) -> None:
    """Send state to the service manager of this process; does nothing without one."""
    address = os.environ.get(SOCKET)
    if not address:
        return
    if address[0] == "@":
        address = "\0" + address[1:]
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    with sender, contextlib.suppress(OSError):  # a manager that has gone must not end the server
        sender.sendto("\n".join(lines).encode(), address)


def watchdog_interval_s() -> float | None:
    """Half of the time within which the service manager needs a sign of life; None if it needs none."""
    text = os.environ.get(WATCHDOG, "")
    return int(text) / 2e6 if text.isdigit() and int(text) else None
