"""One connection of a Kafka client: frames in, calls started in order, answers out in order.

As with Kafka a request waits until those before it on its connection are answered; only apis that say so may
be under way together. What is not started waits as bytes, and while something waits nothing more is read:
a client that sends without reading fills its own socket, and nothing of ours.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from .calls import Call, KafkaPeer
from .codes import API_VERSIONS
from .entities import layout
from .framing import FrameReader, read_header
from .gone_io import LOOK_MS, is_gone
from .memory import ELEMENT_BYTES
from .output_io import Output
from .ready import key_of
from .skimming import no_tags
from .sockets_io import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage_node.log.lending import Part
    from .calls import KafkaApi
    from .framing import RequestHeader
    from .listener_io import KafkaListener

# Answers of one connection that the kernel has not taken yet: above it no further call is started. Answers
# of one turn go out together, at the latest when they are so many.
WRITE_HIGH_BYTES = 64 * 1024
# Bound: calls of one connection that are started before others have their turn, and for how long.
TURN_CALLS = 32
TURN_READS = 4  # that filled their room
TURN_S = 0.002
# Bound: how long a connection that is gone is remembered because it was to wait.
MUTE_STEP_MS = 10_000
_NONE: Any = ()


class KafkaConnection:
    """Fulfils Caller, Holder and Owner of its socket.

    Invariant: `_calls` are those under way, in the order of their frames; `_waiting` the frames behind them.
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_counted_bytes",
        "_counted_moves",
        "_counted_partial",
        "_is_ending",
        "_is_going_on",
        "_is_in_turn",
        "_is_mute_watched",
        "_is_reading_paused",
        "_is_starting",
        "_is_unwanted",
        "_is_watched",
        "_line",
        "_listener",
        "_moves",
        "_muted_until_ms",
        "_output",
        "_queued_bytes",
        "_reader",
        "_ready",
        "_ready_bytes",
        "_started",
        "_turn_ends_s",
        "_waiting",
        "_wanted_bytes",
        "held_since_ms",
        "last_active_ms",
        "peer",
    )

    def __init__(self, listener: KafkaListener, name: str, taken: int, far: Any) -> None:
        """`name` is that of the address it came to; `far` is the other end's."""
        self._listener = listener
        self._reader = FrameReader(listener.shared, listener.max_frame_bytes)
        self._line = Line(listener.sockets, taken, self)
        self._output = Output(
            listener.loop,
            self._line.descriptor,
            progressed=lambda: self._listener.guarded(self._progressed),
            failed=lambda: self._listener.guarded(self.abort),
            watch=self._line.want_writing,
        )
        self._ready: list[Part] = []  # answers of this turn
        self._ready_bytes = 0
        # made when they are needed: an idle connection has none
        self._calls: deque[Call] = _NONE
        self._waiting: deque[bytes] = _NONE
        self._is_starting = self._is_in_turn = self._is_reading_paused = self._is_ending = False
        self._is_going_on = False  # the next turn is arranged for
        self._started, self._turn_ends_s = 0, 0.0
        self._queued_bytes = 0  # of calls under way and of frames that wait
        self._counted_bytes = self._counted_partial = 0
        self._wanted_bytes = 0  # there is no room yet for what is made of the first frame that waits
        self._moves = self._counted_moves = 0
        self.held_since_ms = 0  # what is held now was begun, or was moved on
        self.peer = KafkaPeer(listener.new_session(), name, f"{far[0]}:{far[1]}")
        self.last_active_ms = listener.now_ms()
        self._is_watched = False
        self._muted_until_ms = 0  # until then nothing is taken from it, as quotas want
        self._is_mute_watched = self._is_unwanted = False

    # --- of the connection -------------------------------------------------------------------------------

    def end(self) -> None:
        """It is gone; nobody hears the answers of its calls."""
        self.peer.is_connected = False
        self._waiting = _NONE
        self._count()

    def _progressed(self) -> None:
        """The client has read some of what had to wait."""
        self.last_active_ms = self._listener.now_ms()
        if self._is_ending:
            self._close_when_sent()
        elif not self._is_choked:
            self._end_turn()

    def abort(self) -> None:
        """End it now; what was not sent is lost."""
        self._is_ending = True
        if self._line.is_closed:
            return
        self._ready, self._ready_bytes = [], 0
        # Order: the output must not have the descriptor when it is somebody else's.
        self._output.close()
        self._line.close()
        self._listener.ended(self)

    def close(self) -> None:
        """End it behind the answers that were given."""
        self._flush()
        self._is_ending = True
        self._close_when_sent()

    def _close_when_sent(self) -> None:
        if self.unsent_bytes:
            self._line.want_reading(False)
            self._is_reading_paused = True
        else:
            self.abort()

    @property
    def unsent_bytes(self) -> int:
        """Of answers, not taken by the kernel."""
        return self._output.unsent_bytes

    @property
    def unsent_held_bytes(self) -> int:
        """Of them, those in memory."""
        return self._output.held_bytes

    @property
    def takes_runs(self) -> bool:
        """Whether answers may have LentRuns among their buffers."""
        return self._output.may_lend

    @property
    def _is_choked(self) -> bool:
        """Whether the client does not read as fast as it asks."""
        return self.unsent_bytes > WRITE_HIGH_BYTES

    @property
    def is_writing(self) -> bool:
        """Whether records of it are being written."""
        return any(call.api.is_pipelined for call in self._calls)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way for it."""
        return not self._calls

    # --- requests ----------------------------------------------------------------------------------------

    def readable(self) -> None:
        """Bytes have come, or the end of them: behind the answers that were given we end, too."""
        for _ in range(TURN_READS):
            room = self._reader.room()
            try:
                count = self._line.read(room)
            except OSError:
                self.abort()
                return
            if count is None:
                return
            if not count:
                self.close()
                return
            self._take(count)
            if count < len(room) or self._is_reading_paused or self._is_ending:
                return

    def writable(self) -> None:
        """The client has read something, or is gone."""
        self._output.writable()

    def _take(self, count: int) -> None:
        self.last_active_ms = self._listener.now_ms()
        self._output.asked_again()
        whole = self._reader.whole(count)
        if whole is not None and self._is_answered(whole):
            return
        self._begin_turn()
        try:
            for frame in (whole,) if whole is not None else self._reader.received(count):
                if self._is_ending:
                    return
                # Order: a frame lies in memory that the next read overwrites, so what waits is copied.
                if self._waiting or not (self._has_turn() and self._may_start(frame) and self._start(frame)):
                    self._moves += not self._waiting
                    if self._waiting is _NONE:
                        self._waiting = deque()
                    self._waiting.append(bytes(frame))
                    self._queued_bytes += len(frame)
        except InvalidRequestError as error:
            self._refused(error)
        self._end_turn()

    def _is_answered(self, frame: memoryview) -> bool:
        """Whether the answer was ready, and nothing has to go out before it."""
        listener, peer = self._listener, self.peer
        answer = listener.ready.find(peer.listener, frame, listener.host.image)
        if answer is None or self._calls or self._waiting or self._is_choked or self._muted_until_ms:
            return False
        if listener.throttle.active is not None:
            return False
        if listener.authorize(peer, answer.api, answer.body) is not None:
            return False  # in the long way it is asked again, and told
        peer.client_id = answer.client_id
        peer.software = answer.software or peer.software
        self._output.write_one(answer.framed(frame))
        listener.sent(self)
        if self._output.unsent_bytes:
            self.update_reading()
        return True

    def go_on(self) -> None:
        """Start what waits, as far as it may."""
        self._is_going_on = False
        self.last_active_ms = self._listener.now_ms()
        self._begin_turn()
        try:
            while self._waiting and not self._is_ending and self._has_turn():
                if not self._may_start(memoryview(self._waiting[0])):
                    break
                frame = self._waiting.popleft()
                self._queued_bytes -= len(frame)
                if not self._start(memoryview(frame)):
                    self._waiting.appendleft(frame)
                    self._queued_bytes += len(frame)
                    break
        except InvalidRequestError as error:
            self._refused(error)
        self._end_turn()

    def _begin_turn(self) -> None:
        self._is_in_turn = True
        self._started, self._turn_ends_s = 0, time.monotonic() + TURN_S

    def _has_turn(self) -> bool:
        """Whether this connection may start one more now. The first one always: then time is looked at."""
        self._started += 1
        return self._started <= TURN_CALLS and (self._started == 1 or time.monotonic() < self._turn_ends_s)

    def _end_turn(self) -> None:
        self._is_in_turn = False
        self._flush()
        self._count()
        if self._waiting and not self._is_going_on and self._may_start(memoryview(self._waiting[0])):
            self._is_going_on = True
            self._listener.soon(self.go_on)

    def _may_start(self, frame: memoryview) -> bool:
        if self._is_choked or self._muted_until_ms or (self._calls and not self._may_join(frame)):
            return False
        return not self._wanted_bytes or self._listener.memory.may_begin(self, self._wanted_bytes)

    def _api_of(self, frame: bytes | memoryview) -> KafkaApi | None:
        return self._listener.served.get(int.from_bytes(frame[:2], "big", signed=True))

    def _may_join(self, frame: memoryview) -> bool:
        """Whether it may be under way beside those that are."""
        api = self._api_of(frame)
        return (
            api is not None
            and api.is_pipelined
            and self._calls[-1].api.is_pipelined
            and len(self._calls) < self._listener.max_in_flight
        )

    def _start(self, frame: memoryview) -> bool:
        """False if there is no room for what would be made of it. Errors: InvalidRequestError for what Kafka,
        too, ends a connection for."""
        header = read_header(frame)
        self.peer.client_id = header.client_id
        call = self._call(header, frame)
        if call is None:
            return False
        if self._calls is _NONE:
            self._calls = deque()
        self._calls.append(call)
        self._moves += 1
        self._queued_bytes += call.size
        self._is_starting = True
        try:
            call.reason = call.reason or self._listener.authorize(self.peer, call.api, call.body)
            call.start()
        finally:
            self._is_starting = False
        self._take_ready()
        return True

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
            if not self._may_make(size):
                return None
            body = shape.decode(skimmed, start)
        call = Call(api, version, header.correlation_id, shape, body, self.peer, self._listener, self, size)
        call.ready_key = key_of(frame)
        if is_unsupported:
            call.reason = UnsupportedVersionError(f"ApiVersions has no version {header.api_version}")
        return call

    def _may_make(self, size: int) -> bool:
        """Whether there is room for a call of this size, beside what this turn has taken."""
        taken = self._queued_bytes - self._counted_bytes
        self._wanted_bytes = 0 if self._listener.memory.may_begin(self, size + taken) else size
        return not self._wanted_bytes

    def _refused(self, error: KafkaError) -> None:
        """Bytes that nothing sensible can follow."""
        self._listener.note_refusal(self.peer, error)
        self.close()

    # --- answers -----------------------------------------------------------------------------------------

    def finished(self, call: Call, buffers: Sequence[Part]) -> None:
        """It goes out when all before it have gone."""
        assert call.buffers is None, "a request is answered exactly once"
        call.buffers = buffers
        if call.throttle_ms:
            self.mute(call.throttle_ms)
        if not self._is_starting:
            self._take_ready()
            if not self._is_in_turn:
                self._end_turn()

    def hung_up(self, call: Call) -> None:
        """It cannot be told otherwise that the request failed."""
        if call.buffers is None:
            self.finished(call, ())
        self.close()

    def broken(self, call: Call, error: Exception) -> None:
        """A bug of ours in translating."""
        self._listener.note_bug(self.peer, call, error)
        self.abort()

    def _take_ready(self) -> None:
        """Answers that nothing has to go out before. A turn sends all of its own together."""
        while self._calls and self._calls[0].buffers is not None:
            call = self._calls.popleft()
            self._queued_bytes -= call.size
            for part in call.buffers or ():
                self._ready.append(part)
                self._ready_bytes += len(part)
        if self._ready_bytes > WRITE_HIGH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._ready:
            return
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        if not self._is_ending:
            self.last_active_ms = self._listener.now_ms()
            self._output.write(ready)
            self._listener.sent(self)

    # --- memory ------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Tell the listener what this connection holds, and read on, or not."""
        partial = 0 if self._is_ending else self._reader.held_bytes
        held = 0 if self._is_ending else partial + self._queued_bytes
        moves = self._moves + self._reader.begun
        if moves != self._counted_moves:
            self._counted_moves, self.held_since_ms = moves, self.last_active_ms
        more, more_partial = held - self._counted_bytes, partial - self._counted_partial
        self._counted_bytes, self._counted_partial = held, partial
        self._listener.count(self, more, more_partial)
        self.update_reading()

    def go_on_reading(self) -> None:
        """There may be room for it now."""
        if self._wanted_bytes:
            self._end_turn()
        else:
            self.update_reading()

    @property
    def held_bytes(self) -> int:
        """Of requests, as it was told."""
        return self._counted_bytes

    @property
    def holds_others_up(self) -> bool:
        """Whether it holds memory for what cannot begin yet, and that is not for want of memory."""
        return self.is_within_frame or (bool(self._waiting) and not self._wanted_bytes)

    @property
    def is_within_frame(self) -> bool:
        """Whether memory is held by a frame that has not come whole."""
        return self._reader.held_bytes > 0

    def update_reading(self) -> None:
        """Read on if there is nothing that waits, and room for more."""
        if self._is_ending:
            return
        is_held = bool(self._waiting) or self._is_choked or self._muted_until_ms > 0
        must_pause = is_held or not self._listener.memory.has_room(self)
        if must_pause and not self._is_reading_paused:
            self._line.want_reading(False)
            self._watch()
        elif self._is_reading_paused and not must_pause:
            self._line.want_reading(True)
        self._is_reading_paused = must_pause

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._listener.later(LOOK_MS, self._look)

    def _look(self) -> None:
        """End it if its client is gone, and it waits for something that may never come. What is only written,
        without answers, is written first."""
        self._is_watched = False
        if self._is_ending or not self._is_reading_paused:
            return
        if self._waits_for_answers() and is_gone(self._line.descriptor):
            self.abort()
        else:
            self._watch()

    def _waits_for_answers(self) -> bool:
        """Whether what is first, under way or not, is of no use to a client that is gone."""
        first = (
            self._calls[0].api if self._calls else self._api_of(self._waiting[0]) if self._waiting else None
        )
        return first is not None and not first.is_pipelined

    # --- quotas ------------------------------------------------------------------------------------------

    def mute(self, for_ms: int, *, is_unwanted: bool = False) -> None:
        """Take nothing from it for a while, as quotas want; one that is not wanted ends then."""
        self._muted_until_ms = max(self._muted_until_ms, self._listener.now_ms() + for_ms)
        self._is_unwanted |= is_unwanted
        if not self._is_mute_watched:
            self._is_mute_watched = True
            self._listener.later(min(for_ms, MUTE_STEP_MS), self._look_at_mute)

    def _look_at_mute(self) -> None:
        self._is_mute_watched = False
        left_ms = self._muted_until_ms - self._listener.now_ms()
        if self._is_ending:
            return
        if left_ms > 0:
            self.mute(left_ms)
        elif self._is_unwanted:
            self.abort()
        else:
            self._muted_until_ms = 0
            self._end_turn()
