"""Detects that a client has closed its connection while nothing is read from it: no event reports that then,
so that the socket is polled."""

from __future__ import annotations

import select

POLL_MS = 1_000
_GONE = getattr(select, "POLLRDHUP", select.POLLHUP)


def is_gone(descriptor: int) -> bool:
    """Whether the peer of a socket has closed it, whatever is still to be read."""
    poll = select.poll()
    poll.register(descriptor, _GONE)
    return bool(poll.poll(0))
