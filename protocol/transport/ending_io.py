"""How a router ends: first its answers go out, then its connections end, and only then its socket is shut.

ZeroMQ's own way, `unbind` and `close` with a linger, is not good enough (libzmq 4.3.5):
1. `unbind` ends every connection that the listener accepted and drops what is queued for it: pipe.cpp,
   terminate, makes the session's end of the queue unreadable. A linger does not help.
2. With a linger, what a peer still sends is not read any more; the kernel answers the close of a connection
   with unread input by a reset, which throws away what is on its way to the peer.
3. A client's socket drops what it has received and not handed out when its connection breaks
   (socket_base.cpp, term_endpoint and hiccuped): an answer may arrive and still not be heard.
4. The hazard: a. a queue is shut, by 1 or at the end of a linger, in the middle of a message; b. the peer
   breaks off before the connection's session has ended, which takes a round trip between two threads; c. the
   session looks for the rest of that message in the queue, may not read it, and aborts the process
   (session_base.cpp:233, clean_pipes). A client's session does the same.

So none of it is used. While the socket is open a connection that breaks is taken well, in whatever state it
is: the rest of the message is still there. `Router.stop` keeps it open, says farewell behind the answers and
waits for the peers to leave. Then, or at once by `Router.close`, every connection that is left is shut down
at TCP's level, and only when ZeroMQ has told that it is done with all of them the socket is unbound and
closed. No session in the middle of a message is left that could meet 4b. A client does the same, except that
what it sent without asking for an answer still goes out with ZeroMQ's linger; there 4 is left, for as long as
the round trip takes, when that linger ends before the server has read everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from . import connections_io

if TYPE_CHECKING:
    from collections.abc import Callable

    from .multipart_io import Multipart

# Bound: how long `end_all` waits for ZeroMQ's thread to notice, which takes well below a millisecond unless
# that thread gets no processor at all. Long, because to go on without it is the hazard.
END_TIMEOUT_MS = 2_000
_LOOK_AGAIN_MS = 1
_DROP_LIMIT = 1_000  # messages or parts at a time


def drop_arrived(messages: Multipart, max_parts: int) -> None:
    """Take off a socket what has arrived, within bounds: a connection whose input ZeroMQ has stopped, because
    its queue is full, is not looked at, and its end not noticed."""
    for _ in range(_DROP_LIMIT):
        if messages.is_cut:
            messages.skip(_DROP_LIMIT)
        elif messages.receive(max_parts) is None:
            return


class Standing:
    """The connections of a socket by their descriptors: those that were made and are not gone."""

    def __init__(self) -> None:
        self._count = 0
        self._number: dict[int, int] = {}  # tells a connection from its successors with the same descriptor

    def note(self, event: int, value: int) -> None:
        """Take in what the socket's monitor tells."""
        if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
            self._count += 1
            self._number[value] = self._count
        elif event == zmq.EVENT_DISCONNECTED:
            self._number.pop(value, None)

    def end_all(self, port: int, refresh: Callable[[int], None]) -> bool:
        """Shut down every connection, on a server those to its `port`, and wait until ZeroMQ is done with
        them; False if it was not in time. `refresh` drops what has arrived, waits for news for up to so many
        milliseconds and then notes all there are."""
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
