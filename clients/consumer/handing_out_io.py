"""The user's end of a consumer's engine: takes what was fetched, under the lock that the loop shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError, HeadraceError
from .gathering import Gathering, Wanted

if TYPE_CHECKING:
    import threading

    from ...protocol.records.codec import RecordCodec
    from .fetch_state import Chunk
    from .handout import Handout
    from .interceptors import Interceptors

# Bound: bytes of keys, of values or of headers in one table of `arrow_batches`, whatever its rows. Small
# enough that the allocator keeps the memory for the next: fresh pages for each would halve the throughput.
MAX_COLUMN_BYTES = 16 << 20


class HandingOut:
    """The part of `ConsumerEngine` that the user's thread or task calls to get records."""

    _lock: threading.Lock
    _handout: Handout
    _codec: RecordCodec
    interceptors: Interceptors
    _failure: HeadraceError | None
    _is_preparing = False  # the user's deserialisers are at work
    _asks = 0  # how often the user asked for records

    def _wake_if_needed(self) -> None:
        raise NotImplementedError

    def take(self, max_records: int) -> list[Any]:
        """Records that are there now; empty when none are. Errors: see `Handout`."""
        taken: list[Any] = []
        try:
            size, _ = self.fill(taken, max_records)
            self._handout.handed_out(size)
        except BaseException:
            self.put_back()
            raise
        return taken

    def fill(self, taken: list[Any], max_records: int) -> tuple[int, bool]:
        """Move records that are there now to `taken`, until these are `max_records`; tell `handed_out` or
        `put_back` then. Gives how many there are, and whether nothing can join before these are handed out.

        Errors: see `Handout`; with records taken it is ready instead, and the next call raises.
        """
        self._asks += 1
        while True:
            with self._lock:
                if not taken:
                    self._handout.asked()
                if self._is_preparing or self._failure is not None:
                    self._check_user()
                    if taken:
                        return len(taken), True
                    self._check()
                try:
                    chunk = self._handout.take(taken, max_records)
                finally:
                    self._wake_if_needed()
            if chunk is None:
                return len(taken), self._handout.is_blocked or len(taken) >= max_records
            try:
                self._prepare(chunk)
            except Exception:  # the user's `on_deserialize_error` raises what it likes
                if not taken:
                    raise
                return len(taken), True  # the batch is still there: the next call raises it

    def handed_out(self, count: int) -> None:
        """The user gets what was taken or gathered.

        Order: no call comes between this and the hand-out, or an interrupt behind it would lose the records.
        """
        self._handout.handed_out(count)

    def put_back(self) -> None:
        """The user does not get the records that were taken: go back to where they began."""
        if self._is_preparing:
            return  # a deserialiser was refused: what was taken is of the call that it works for
        with self._lock:
            self._handout.put_back()
            self._wake_if_needed()

    def _prepare(self, chunk: Chunk) -> None:
        # Without the lock: the loop fetches on meanwhile, and the user's code may call the consumer.
        self._is_preparing = True
        try:
            self._handout.prepare(chunk)
        finally:
            self._is_preparing = False

    def gathering(self, wanted: Wanted, max_rows: int) -> Gathering:
        """A new table to fill by `gather`; tell `handed_out` or `undo` then. Errors: ConfigError for a
        consumer whose interceptors see records."""
        if self.interceptors.see_records:
            raise ConfigError("interceptors see records, not columns: this consumer has no arrow_batches")
        sink = self._codec.columns(**wanted._asdict(), max_column_bytes=MAX_COLUMN_BYTES)
        return Gathering(sink, max_rows)

    def gather(self, gathering: Gathering) -> tuple[int, bool]:
        """`fill` with rows of a table. Errors: see `Handout.choose`; with rows gathered as there."""
        self._asks += 1
        while not gathering.is_ready:
            with self._lock:
                self._check_user()
                if not gathering.count:
                    self._handout.asked()
                if gathering.count and self._failure is not None:
                    gathering.is_blocked = True
                    break
                self._check()
                try:
                    chunks = self._handout.choose(gathering)
                finally:
                    self._wake_if_needed()
            if not chunks:
                break
            self._gather_from(chunks, gathering)
        return gathering.count, gathering.is_ready

    def _gather_from(self, chunks: list[Chunk], gathering: Gathering) -> None:
        moves: list[tuple[Chunk, int]] = []
        try:
            # Without the lock: the loop fetches on meanwhile.
            self._handout.gather(gathering, chunks, moves)
        except HeadraceError:
            if not gathering.count:
                raise
            gathering.is_blocked = True
        finally:
            with self._lock:
                self._handout.moved(moves)
                self._wake_if_needed()

    def undo(self, gathering: Gathering) -> None:
        """The user does not get the rows: go back to where they began."""
        with self._lock:
            self._handout.undo(gathering)
            self._wake_if_needed()

    def head(self) -> Chunk | None:
        """The next chunk to iterate over; report its end with `settle`."""
        self._asks += 1
        while True:
            with self._lock:
                self._check_user()
                self._check()
                self._handout.asked()
                try:
                    chunk = self._handout.head()
                    if chunk is not None and chunk.is_ready:
                        self._handout.iterate(chunk)
                finally:
                    self._wake_if_needed()
            if chunk is None or chunk.is_ready:
                return chunk
            self._prepare(chunk)

    def asked(self) -> None:
        """The user asks for more: what it has, it has finished."""
        with self._lock:
            self._handout.asked()

    def settle(self, chunk: Chunk, taken: int) -> None:
        """The user has stopped taking records of the chunk after `taken` more of them."""
        with self._lock:
            self._handout.settle(chunk)
            self._handout.records_total += taken
            self._wake_if_needed()

    # --- inside -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check_user(self) -> None:
        if self._is_preparing:
            raise HeadraceError(
                "records are being deserialised: neither a deserialiser nor another thread can take more"
            )
