"""One connection of a Kafka client: reads frames, starts their calls in order, writes the responses in order.

As in Kafka, a request waits until those before it on its connection are answered; only pipelined apis may be
in flight together. Requests that are not started wait as bytes, and while one waits nothing more is read: a
client that sends without reading fills its own socket buffer, and no memory of the node.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from ...protocol.security.identity import Identity, host_of
from .calls import Call, KafkaPeer
from .codes import API_VERSIONS
from .entities import layout
from .framing import FrameReader, read_header
from .memory import ELEMENT_BYTES, HeldRequests
from .output_io import Output
from .reading_io import ReadControl
from .ready import key_of
from .skimming import no_tags
from .sockets_io import PolledSocket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage_node.log.lending import Part
    from .calls import KafkaApi
    from .framing import RequestHeader
    from .listener_io import KafkaListener

# Response bytes of one connection that the kernel has not taken: above it no further call is started. The
# responses of one turn are written together, at the latest when they are so many.
WRITE_HIGH_BYTES = 64 * 1024
# Bound: calls that one connection starts before other connections have their turn, reads that fill their
# buffer, and the duration.
TURN_CALLS = 32
TURN_READS = 4
TURN_S = 0.002
_NONE: Any = ()


class KafkaConnection:
    """Fulfils Caller, Holder and Owner of its socket.

    Invariant: `_calls` are those in flight, in the order of their frames; `_waiting` are the frames behind
    them.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_held",
        "_is_in_turn",
        "_is_resume_scheduled",
        "_is_starting",
        "_listener",
        "_output",
        "_reader",
        "_reading",
        "_responses",
        "_responses_bytes",
        "_socket",
        "_started",
        "_turn_ends_s",
        "_waiting",
        "is_ending",
        "last_active_ms",
        "peer",
    )

    def __init__(self, listener: KafkaListener, name: str, descriptor: int, remote: Any) -> None:
        """`name` is that of the listener address; `remote` is the client's address."""
        self._listener = listener
        self._reader = FrameReader(listener.shared, listener.max_frame_bytes)
        self._socket = self._new_socket(descriptor)
        self._output = self._new_output(descriptor)
        self._responses: list[Part] = []  # of this turn, not written yet
        self._responses_bytes = 0
        # Made when they are needed: an idle connection has none.
        self._calls: deque[Call] = _NONE
        self._waiting: deque[bytes] = _NONE
        self._is_starting = self._is_in_turn = self._is_resume_scheduled = self.is_ending = False
        self._started, self._turn_ends_s = 0, 0.0
        self._held = HeldRequests()
        self._reading = ReadControl(self, listener, self._socket)
        self.peer = KafkaPeer(listener.new_session(), name, f"{remote[0]}:{remote[1]}")
        self.peer.identity = Identity(host=host_of(self.peer.address))
        self.last_active_ms = listener.now_ms()

    def _new_socket(self, descriptor: int) -> PolledSocket:
        return PolledSocket(self._listener.sockets, descriptor, self)

    def _new_output(self, descriptor: int) -> Output:
        return Output(
            self._listener.loop,
            descriptor,
            progressed=lambda: self._listener.guarded(self._progressed),
            failed=lambda: self._listener.guarded(self.abort),
            watch=self._socket.set_writing,
        )

    # --- the connection ----------------------------------------------------------------------------------

    def released(self) -> None:
        """The connection is closed: drop what waits. Responses of calls in flight are dropped when they
        come."""
        self.peer.is_connected = False
        self._waiting = _NONE
        self._count()

    def abort(self) -> None:
        """Close it now; responses that were not sent are lost."""
        self.is_ending = True
        if self._socket.is_closed:
            return
        self._responses, self._responses_bytes = [], 0
        self._reading.close()
        # Order: the output must not have the descriptor when another connection gets it.
        self._output.close()
        self._socket.close()
        self._listener.ended(self)

    def close(self) -> None:
        """Close it behind the responses that were made."""
        self._flush()
        self.is_ending = True
        self._close_when_sent()

    def mute(self, for_ms: int, *, must_close: bool = False) -> None:
        """Read and start nothing for `for_ms`, for a quota; then close the connection if it `must_close`."""
        self._reading.mute(for_ms, must_close=must_close)

    def _progressed(self) -> None:
        """The client has read some of the responses that had to wait."""
        self.last_active_ms = self._listener.now_ms()
        if self.is_ending:
            self._close_when_sent()
        elif not self._is_output_full:
            self.end_turn()

    def _close_when_sent(self) -> None:
        if self.unsent_bytes:
            self._reading.pause()
        else:
            self.abort()

    @property
    def unsent_bytes(self) -> int:
        """Response bytes that the kernel has not taken."""
        return self._output.unsent_bytes

    @property
    def unsent_held_bytes(self) -> int:
        """Those of them that are in memory, not in log files."""
        return self._output.held_bytes

    @property
    def takes_runs(self) -> bool:
        """Whether responses may have LentRuns among their buffers."""
        return self._output.may_lend

    @property
    def _is_output_full(self) -> bool:
        return self.unsent_bytes > WRITE_HIGH_BYTES

    @property
    def is_writing(self) -> bool:
        """Whether a Produce is in flight."""
        return any(call.api.is_pipelined for call in self._calls)

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""
        return not self._calls

    @property
    def awaits_response(self) -> bool:
        """Whether the first request, in flight or waiting, only makes a response. A client that has
        disconnected has no use for it; a Produce is completed all the same."""
        first = (
            self._calls[0].api if self._calls else self._api_of(self._waiting[0]) if self._waiting else None
        )
        return first is not None and not first.is_pipelined

    # --- requests ----------------------------------------------------------------------------------------

    def readable(self) -> None:
        """Read and start requests; at the end of the stream close behind the responses that were made."""
        for _ in range(TURN_READS):
            room = self._reader.room()
            try:
                count = self._socket.read(room)
            except OSError:
                self.abort()
                return
            if count is None:
                return
            if not count:
                self.close()
                return
            self._received(count)
            if count < len(room) or self._reading.is_paused or self.is_ending:
                return

    def writable(self) -> None:
        """The socket takes more, or has failed."""
        self._output.writable()

    def _received(self, count: int) -> None:
        self.last_active_ms = self._listener.now_ms()
        self._output.note_request()
        whole = self._reader.whole(count)
        if whole is not None and self._answer_ready(whole):
            return
        self._begin_turn()
        try:
            for frame in (whole,) if whole is not None else self._reader.received(count):
                if self.is_ending:
                    return
                # Order: the next read overwrites the frame's memory, so that a frame which waits is copied.
                if self._waiting or not (self._has_turn() and self._may_start(frame) and self._start(frame)):
                    self._held.moves += not self._waiting
                    if self._waiting is _NONE:
                        self._waiting = deque()
                    self._waiting.append(bytes(frame))
                    self._held.queued_bytes += len(frame)
        except InvalidRequestError as error:
            self._refuse(error)
        self.end_turn()

    def _answer_ready(self, frame: memoryview) -> bool:
        """Send the response that is ready for this request, if there is one and nothing is to be sent
        before."""
        listener, peer = self._listener, self.peer
        answer = listener.ready.find(peer.listener, frame, listener.host.image)
        if (
            answer is None
            or self._calls
            or self._waiting
            or self._is_output_full
            or self._reading.muted_until_ms
            or listener.throttle.active is not None
        ):
            return False
        peer.client_id = answer.client_id
        peer.software = answer.software or peer.software
        listener.ready.sent[frame[1]] += 1
        self._output.write_one(answer.framed(frame))
        listener.sent(self)
        if self._output.unsent_bytes:
            self.update_reading()
        return True

    def resume(self) -> None:
        """Start the waiting requests that may start."""
        self._is_resume_scheduled = False
        self.last_active_ms = self._listener.now_ms()
        self._begin_turn()
        try:
            while self._waiting and not self.is_ending and self._has_turn():
                if not self._may_start(memoryview(self._waiting[0])):
                    break
                frame = self._waiting.popleft()
                self._held.queued_bytes -= len(frame)
                if not self._start(memoryview(frame)):
                    self._waiting.appendleft(frame)
                    self._held.queued_bytes += len(frame)
                    break
        except InvalidRequestError as error:
            self._refuse(error)
        self.end_turn()

    def _begin_turn(self) -> None:
        self._is_in_turn = True
        self._started, self._turn_ends_s = 0, time.monotonic() + TURN_S

    def _has_turn(self) -> bool:
        """Whether this turn may start one more request. The first one always may, without reading the
        clock."""
        self._started += 1
        return self._started <= TURN_CALLS and (self._started == 1 or time.monotonic() < self._turn_ends_s)

    def end_turn(self) -> None:
        """Write the responses of the turn, and schedule the next turn if a waiting request may start."""
        self._is_in_turn = False
        self._flush()
        self._count()
        if self._waiting and not self._is_resume_scheduled and self._may_start(memoryview(self._waiting[0])):
            self._is_resume_scheduled = True
            self._listener.soon(self.resume)

    def _may_start(self, frame: memoryview) -> bool:
        if self._is_output_full or self._reading.muted_until_ms:
            return False
        if self._calls and not self._may_join(frame):
            return False
        needed_bytes = self._held.needed_bytes
        return not needed_bytes or self._listener.memory.may_start(self, needed_bytes)

    def _api_of(self, frame: bytes | memoryview) -> KafkaApi | None:
        return self._listener.served.get(int.from_bytes(frame[:2], "big", signed=True))

    def _may_join(self, frame: memoryview) -> bool:
        """Whether the request may be in flight beside those that are."""
        api = self._api_of(frame)
        return (
            api is not None
            and api.is_pipelined
            and self._calls[-1].api.is_pipelined
            and len(self._calls) < self._listener.max_in_flight
        )

    def _start(self, frame: memoryview) -> bool:
        """False if there is no memory for the decoded request. Errors: InvalidRequestError where Kafka, too,
        closes the connection."""
        header = read_header(frame)
        self.peer.client_id = header.client_id
        call = self._call(header, frame)
        if call is None:
            return False
        self._run(call)
        return True

    def _run(self, call: Call) -> None:
        if self._calls is _NONE:
            self._calls = deque()
        self._calls.append(call)
        self._held.moves += 1
        self._held.queued_bytes += call.size
        self._is_starting = True
        try:
            call.start()
        finally:
            self._is_starting = False
        self._collect_responses()

    def _call(self, header: RequestHeader, frame: memoryview) -> Call | None:
        api = self._listener.served.get(header.api_key)
        version, is_unsupported = header.api_version, False
        if api is None:
            raise InvalidRequestError(f"api {header.api_key} is not served")
        if not api.low <= version <= api.high:
            if api.key != API_VERSIONS:
                raise InvalidRequestError(f"{api.name} has no version {version}")
            version, is_unsupported = 0, True
        shape = layout(api.key, version)
        body, size = None, len(frame)
        if not is_unsupported:
            start = no_tags(frame, header.end) if shape.is_flexible else header.end
            skimmed = shape.skim(frame, start, self._listener.memory.max_elements)
            size += skimmed.elements * ELEMENT_BYTES
            if not self._may_decode(size):
                return None
            body = shape.decode(skimmed, start)
        call = Call(api, version, header.correlation_id, shape, body, self.peer, self._listener, self, size)
        call.ready_key = key_of(frame)
        if is_unsupported:
            call.reason = UnsupportedVersionError(f"ApiVersions has no version {header.api_version}")
        return call

    def _may_decode(self, size: int) -> bool:
        """Whether there is memory for a call of this size, beside what this turn has taken."""
        held = self._held
        taken = held.queued_bytes - held.counted_bytes
        held.needed_bytes = 0 if self._listener.memory.may_start(self, size + taken) else size
        return not held.needed_bytes

    def _refuse(self, error: KafkaError) -> None:
        """The bytes are not a request that is served: close the connection."""
        self._listener.note_refusal(self.peer, error)
        self.close()

    # --- responses ---------------------------------------------------------------------------------------

    def finished(self, call: Call, buffers: Sequence[Part]) -> None:
        """Part of Caller: the response is written once all before it are."""
        assert call.buffers is None, "a request is answered exactly once"
        call.buffers = buffers
        if call.throttle_ms:
            self.mute(call.throttle_ms)
        if not self._is_starting:
            self._collect_responses()
            if not self._is_in_turn:
                self.end_turn()

    def close_for(self, call: Call) -> None:
        """Part of Caller: close the connection instead of a response."""
        if call.buffers is None:
            self.finished(call, ())
        self.close()

    def broken(self, call: Call, error: Exception) -> None:
        """Part of Caller: log the bug and close the connection."""
        self._listener.note_bug(self.peer, call, error)
        self.abort()

    def _collect_responses(self) -> None:
        """Take the responses that are next in order. Those of one turn are written together."""
        while self._calls and self._calls[0].buffers is not None:
            call = self._calls.popleft()
            self._held.queued_bytes -= call.size
            for part in call.buffers or ():
                self._responses.append(part)
                self._responses_bytes += len(part)
        if self._responses_bytes > WRITE_HIGH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._responses:
            return
        responses, self._responses, self._responses_bytes = self._responses, [], 0
        if not self.is_ending:
            self.last_active_ms = self._listener.now_ms()
            self._output.write(responses)
            self._listener.sent(self)

    # --- memory ------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Report the memory of this connection's requests to the listener, and pause or resume reading."""
        partial = 0 if self.is_ending else self._reader.held_bytes
        held = 0 if self.is_ending else partial + self._held.queued_bytes
        growth = self._held.count(partial, held, self._reader.begun, self.last_active_ms)
        self._listener.count(self, *growth)
        self.update_reading()

    def update_reading(self) -> None:
        """Pause or resume reading."""
        if not self.is_ending:
            self._reading.update(bool(self._waiting) or self._is_output_full)

    def resume_reading(self) -> None:
        """Part of Holder: there may be memory for the next frame, or for the first waiting request."""
        if self._held.needed_bytes:
            self.end_turn()
        else:
            self.update_reading()

    @property
    def held_bytes(self) -> int:
        """Request bytes, as last reported to the listener."""
        return self._held.counted_bytes

    @property
    def held_since_ms(self) -> int:
        """When the last frame was begun, queued or started."""
        return self._held.since_ms

    @property
    def blocks_others(self) -> bool:
        """Whether it holds memory for a request that cannot start, for another reason than memory."""
        return self.has_partial_frame or (bool(self._waiting) and not self._held.needed_bytes)

    @property
    def has_partial_frame(self) -> bool:
        """Part of Holder: memory is held by a frame that was received in part."""
        return self._reader.held_bytes > 0
