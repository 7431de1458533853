"""Closing a router: first its responses are sent, then its connections are closed, and only then its socket.

ZeroMQ's own way, `unbind` and `close` with a linger, loses data (libzmq 4.3.5):
1. `unbind` closes every connection that the listener accepted and drops its queued messages: pipe.cpp,
   terminate, makes the session's end of the queue unreadable. A linger does not help.
2. During a linger, incoming data is not read; the kernel answers the close of a connection with unread input
   by a reset, which discards data in flight to the peer.
3. A client's socket drops received messages that the application has not taken when its connection breaks
   (socket_base.cpp, term_endpoint and hiccuped): a response may arrive and still be lost.
4. The hazard: a. a queue is closed, by 1 or at the end of a linger, in the middle of a message; b. the peer
   disconnects before the connection's session has ended, which takes a round trip between two threads; c. the
   session reads the rest of that message from the queue, which is closed, and aborts the process
   (session_base.cpp:233, clean_pipes). A client's session does the same.

So neither is used. While the socket is open, a broken connection is handled in any state: the rest of the
message is still there. `Router.stop` keeps the socket open, sends a closing message behind the responses and
waits for the peers to disconnect. Then, or at once by `Router.close`, every remaining connection is shut down
at TCP level, and the socket is unbound and closed only when ZeroMQ has reported that all of them are gone. No
session in the middle of a message is left for 4b. A client does the same, except that its requests without
response are still sent with ZeroMQ's linger; there 4 remains, for the duration of the round trip, if that
linger ends before the server has read everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from . import connections_io

if TYPE_CHECKING:
    from collections.abc import Callable

    from .multipart_io import Multipart

# Bound: how long `end_all` waits for ZeroMQ's thread, which needs well below a millisecond unless it gets no
# CPU at all. Long, because continuing without it is the hazard.
END_TIMEOUT_MS = 2_000
_LOOK_AGAIN_MS = 1
_DROP_LIMIT = 1_000  # messages or parts per call


def drop_arrived(messages: Multipart, max_parts: int) -> None:
    """Receive and drop arrived messages, within bounds: ZeroMQ does not read from a connection whose queue is
    full, and would not detect its end."""
    for _ in range(_DROP_LIMIT):
        if messages.is_cut:
            messages.skip(_DROP_LIMIT)
        elif messages.receive(max_parts) is None:
            return


class Standing:
    """The open connections of a socket by their descriptors."""

    def __init__(self) -> None:
        self._count = 0
        self._number: dict[int, int] = {}  # distinguishes connections that reuse a descriptor

    def note(self, event: int, value: int) -> None:
        """Process a monitor event of the socket."""
        if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
            self._count += 1
            self._number[value] = self._count
        elif event == zmq.EVENT_DISCONNECTED:
            self._number.pop(value, None)

    def end_all(self, port: int, refresh: Callable[[int], None]) -> bool:
        """Shut down every connection, on a server those to its `port`, and wait until ZeroMQ has closed them;
        False if that takes too long. `refresh` drops arrived messages, waits up to so many milliseconds for
        monitor events and notes them."""
        refresh(0)
        ending = dict(self._number)
        for descriptor, number in ending.items():

            def is_still_there(descriptor: int = descriptor, number: int = number) -> bool:
                refresh(0)
                return self._number.get(descriptor) == number

            connections_io.disconnect(descriptor, port, is_still_there)
        for _ in range(END_TIMEOUT_MS // _LOOK_AGAIN_MS):
            if not self._number.items() & ending.items():
                return True
            refresh(_LOOK_AGAIN_MS)
        return False
