"""TLS for one connection: an SSL object between the descriptor and the frames, over buffers in memory.

Records are read in large pieces, and encrypted when the socket is writable, so that a waiting response is in
memory once, and a response from the page cache not at all. The steps of handshakes wait for their turns
(turns_io.py).
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from ...runtime.files.file_layer import NotCachedError
from ...storage_node.log.lending import LentRun
from .output_io import Output
from .sockets_io import PolledSocket
from .turns_io import TURN_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sockets_io import Sockets
    from .turns_io import Turns

# Bound: encrypted bytes of one read, which OpenSSL's buffer of the connection then keeps.
READ_BYTES = 64 * 1024
# Bound: plain bytes that are encrypted at once, before the socket takes them.
SEAL_BYTES = 256 * 1024
# Bound: what TLS itself sends to a client after the handshake. An answer to a key update has some 30 bytes,
# and clients that send data need one in hundreds of gigabytes.
MAX_ANSWERED_BYTES = 16 * 1024
# Bound: encrypted bytes in a row without any data: more than the largest record, which arrives in pieces.
MAX_SILENT_BYTES = 32 * 1024


class TlsOwner(Protocol):
    """Callbacks of the connection, in addition to Owner of sockets_io.py."""

    def readable(self) -> None:
        """Read; runs one step of a handshake."""

    def writable(self) -> None:
        """The socket is writable again."""

    def secured(self, certificate: bytes | None) -> None:
        """The handshake is complete; the client's certificate in DER, if it sent one."""

    def handshake_failed(self, reason: str) -> None:
        """The connection will be closed next."""


class TlsSocket(PolledSocket):
    """A PolledSocket whose bytes are encrypted."""

    __slots__ = (
        "_answered_bytes",
        "_buffer",
        "_has_more",
        "_incoming",
        "_is_again_scheduled",
        "_is_in_turn",
        "_is_queued",
        "_outgoing",
        "_silent_bytes",
        "_soon",
        "_tls",
        "_turns",
        "_wants_reading",
        "is_established",
        "is_flushed",
        "send_sealed",
    )

    owner: Any

    def __init__(
        self,
        sockets: Sockets,
        descriptor: int,
        owner: Any,
        *,
        context: ssl.SSLContext,
        turns: Turns,
        buffer: memoryview,
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """`owner` is a TlsOwner; `buffer` is shared with other connections. Set `send_sealed` next."""
        super().__init__(sockets, descriptor, owner)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._turns, self._buffer, self._soon = turns, buffer, soon
        self._is_in_turn = self._is_queued = self._has_more = self._is_again_scheduled = False
        self.is_established = False
        self._answered_bytes = self._silent_bytes = 0
        self.is_flushed = True  # whether all encrypted bytes are sent: then close_notify can be sent
        self._wants_reading = True
        self.send_sealed: Callable[[bytes], None] = _drop

    # --- reading -----------------------------------------------------------------------------------------

    def read(self, room: memoryview) -> int | None:
        """As PolledSocket.read. During a handshake it runs one step, in its turn."""
        if not self.is_established:
            if not self._is_in_turn:
                self._queue()
                return None
            if self._handshake() == 0:
                return 0
            if not self.is_established:
                return None
        return self._read(room)

    def _read(self, room: memoryview) -> int | None:
        filled, is_ended = 0, False
        self._has_more = False
        end_s = time.monotonic() + TURN_S
        while filled < len(room):
            try:
                count = self._tls.read(len(room) - filled, room[filled:])
            except ssl.SSLWantReadError:
                if time.monotonic() >= end_s:
                    self._has_more = True
                    self._schedule_again()
                    break
                received = self._receive()
                if received:
                    self._note_silence(received)
                    continue
                is_ended = received == 0
                break
            except ssl.SSLZeroReturnError:
                is_ended = True
                break
            if not count:
                is_ended = True
                break
            filled += int(count)
            self._silent_bytes = 0
        else:
            self._has_more = True
            self._schedule_again()
        self._send_pending()
        if filled and is_ended:  # reported by the next read
            self._has_more = True
            self._schedule_again()
        if filled:
            return filled
        return 0 if is_ended else None

    def _receive(self) -> int | None:
        """Encrypted bytes into OpenSSL's buffer: their number, as of PolledSocket.read."""
        count = super().read(self._buffer)
        if count:
            self._incoming.write(self._buffer[:count])
        return count

    def _note_silence(self, received: int) -> None:
        """Errors: ConnectionError for a client that only keeps TLS busy."""
        if self._silent_bytes > MAX_SILENT_BYTES:
            raise ConnectionError("records of TLS without data")
        self._silent_bytes += received

    def _send_pending(self) -> None:
        """Errors: ConnectionError for a client that makes TLS send without end, and may not read it."""
        if self._outgoing.pending:
            data = self._outgoing.read()
            if self.is_established:
                self._answered_bytes += len(data)
                if self._answered_bytes > MAX_ANSWERED_BYTES:
                    raise ConnectionError("too many key updates of TLS")
            self.send_sealed(data)

    def _schedule_again(self) -> None:
        """Bytes in OpenSSL's buffer cause no event of the poller."""
        if self._has_more and not self._is_again_scheduled and self._wants_reading:
            self._is_again_scheduled = True
            self._soon(self._read_again)

    def _read_again(self) -> None:
        self._is_again_scheduled = False
        if self._has_more and self._wants_reading and not self.is_closed:
            self.owner.readable()

    def set_reading(self, is_polled: bool, /) -> None:
        """As PolledSocket.set_reading; a handshake that waits for its turn is not polled."""
        self._wants_reading = is_polled
        super().set_reading(is_polled and not self._is_queued)
        self._schedule_again()

    # --- the handshake -----------------------------------------------------------------------------------

    def _queue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._turns.add(self)
            super().set_reading(False)

    def take_turn(self) -> None:
        """Run a step of the handshake."""
        self._is_queued = False
        if self.is_closed:
            return
        super().set_reading(self._wants_reading)
        self._is_in_turn = True
        try:
            self.owner.readable()
        finally:
            self._is_in_turn = False

    def _handshake(self) -> int | None:
        """One step with the received bytes; 0 at the end of the stream. Errors: OSError."""
        received = self._receive()
        if not received:
            if received == 0:
                self.owner.handshake_failed("the client closed the connection within the TLS handshake")
            return received
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_pending()
            return received
        except ssl.SSLError as error:
            self._send_pending()  # the alert
            self.owner.handshake_failed(f"TLS handshake failed: {_reason(error)}")
            raise
        self._send_pending()
        self.is_established = True
        self.owner.secured(self._tls.getpeercert(binary_form=True))
        return received

    # --- writing -----------------------------------------------------------------------------------------

    def seal(self, view: memoryview) -> bytes:
        """The TLS records of these bytes, after pending TLS messages. Errors: OSError."""
        while view:
            view = view[self._tls.write(view) :]
        return self._outgoing.read()

    def close(self) -> None:
        """Close the connection now, with a close_notify if no other bytes are unsent."""
        if not self.is_closed:
            if self.is_established and self.is_flushed:
                with contextlib.suppress(OSError):
                    self._tls.unwrap()
                with contextlib.suppress(OSError):
                    os.write(self.descriptor, self._outgoing.read())
            self.send_sealed = _drop
            super().close()


def _drop(_data: bytes) -> None:
    pass


_REASONS = {
    "HTTP_REQUEST": "the client sent HTTP",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS: it needs security.protocol SSL or SASL_SSL",
    "UNSUPPORTED_PROTOCOL": "the client speaks no enabled version of TLS",
    "NO_SHARED_CIPHER": "the client has no enabled cipher suite",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and ssl.client.auth is required",
}


def _reason(error: ssl.SSLError) -> str:
    """The cause, without text that the client chose."""
    verify = getattr(error, "verify_message", "")
    reason = error.reason or "the stream ended"
    return f"the client's certificate is refused: {verify}" if verify else _REASONS.get(reason, reason)


class TlsOutput(Output):
    """An Output that encrypts its parts. Runs are read from the page cache only then, and not held.

    Invariant: the first `_sealed` parts are encrypted; of the part behind them the first `_taken` bytes are
    in one of these.
    """

    __slots__ = ("_room", "_seal", "_sealed", "_taken")

    def __init__(
        self, *args: Any, seal: Callable[[memoryview], bytes], room: memoryview, **more: Any
    ) -> None:
        """As Output. `room` is shared with other connections: its size is what is sealed at once."""
        super().__init__(*args, **more)
        self._seal, self._room = seal, room
        self._sealed = self._taken = 0

    def write_one(self, data: bytes) -> None:
        self.write((data,))

    def send_sealed(self, data: bytes) -> None:
        """Send bytes that are already encrypted, before the unencrypted parts."""
        if self._is_closed or not data:
            return
        self._parts = self._parts or deque()
        self._parts.insert(self._sealed, data)
        self._sealed += 1
        self.unsent_bytes += len(data)
        self.held_bytes += len(data)
        if not (self._is_watched or self._is_pump_scheduled):
            self._pump()

    def close(self) -> None:
        super().close()
        self._seal, self._sealed, self._taken = bytes, 0, 0

    def _cork(self) -> None:
        """Parts are sealed together: the small ones make no packets of their own."""

    def _send_some(self) -> int:
        if not self._sealed:
            self._seal_some()
        first = self._parts[0]
        sent = os.write(self._descriptor, memoryview(first)[self._sent :])  # type: ignore[arg-type]
        self.unsent_bytes -= sent
        self.held_bytes -= sent
        self._sent += sent
        if self._sent == len(first):
            self._parts.popleft()
            self._sent, self._sealed = 0, self._sealed - 1
        return sent

    def _seal_some(self) -> None:
        """Replace bytes of the first parts by their records. Errors: as Output._send_some of runs."""
        room, size, held = self._room, 0, 0
        while self._parts and size < len(room):
            first = self._parts[0]
            if isinstance(first, LentRun):
                try:
                    count = first.read_into(room[size:], self._taken)
                except NotCachedError:
                    if not size:
                        raise
                    break
            else:
                view = memoryview(first)[self._taken : self._taken + len(room) - size]
                count = len(view)
                room[size : size + count] = view
                held += count
            size += count
            self._taken += count
            if self._taken == len(first):
                self._parts.popleft()
                self._taken = 0
                if isinstance(first, LentRun):
                    first.on_revoked = None
                    self._runs.remove(first)
        sealed = self._seal(room[:size])
        self._parts.appendleft(sealed)
        self._sealed = 1
        self.unsent_bytes += len(sealed) - size
        self.held_bytes += len(sealed) - held
