"""Whether the client of a connection that is not read is still there: nobody tells, so one has to look."""

from __future__ import annotations

import select

LOOK_MS = 1_000
_GONE = getattr(select, "POLLRDHUP", select.POLLHUP)


def is_gone(descriptor: int) -> bool:
    """Whether the other side of a socket has closed it, whatever there is to be read before that."""
    poll = select.poll()
    poll.register(descriptor, _GONE)
    return bool(poll.poll(0))
