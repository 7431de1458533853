"""The outcomes of sent records: one `Delivery` per batch, from which light per-record futures read.

A future per record with a lock and a condition of its own costs more than the whole rest of `send`; here a
record's future is four slots that point into its batch's delivery.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from ...protocol.errors import ApiTimeoutError, HeadraceError
from ...runtime.tracing.contexts import traceparents_of
from ..records import RecordMetadata
from ..user_code import call_user
from .per_record_io import compiled_twin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..records import Headers

# The counterpart of `RecordFuture` in asyncio producers.
AsyncRecordFuture: TypeAlias = "asyncio.Future[RecordMetadata]"

# Guards resolving, waiting and callbacks of every delivery, which are rare; released before calling out.
_lock = threading.Lock()


def _new_lock() -> None:
    """In a forked child: the thread that held the lock at the fork does not exist here."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


class Delivery:
    """The outcome of one batch. Resolved once, on the IO thread; read and waited for from any thread.

    After a split the outcome is that of `parts`: (index of the first record, delivery). Records that the
    leader refused have errors of their own in `record_errors`, by index; `parts` then counts without them.
    """

    __slots__ = (
        "_callbacks", "_event", "base_offset", "error", "io_thread", "is_done", "is_reported",
        "log_append_time_ms", "partition", "parts", "record_errors", "topic", "traceparents",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, io_thread: int | None) -> None:
        self.topic, self.partition = topic, partition
        self.io_thread = io_thread  # its ident; a wait there would never end. None: asyncio
        self.is_done = False
        self.is_reported = False  # a caller has read the error
        self.base_offset = self.log_append_time_ms = -1
        self.error: BaseException | None = None
        self.parts: list[tuple[int, Delivery]] | None = None
        self.record_errors: dict[int, BaseException] | None = None  # rising indexes
        self.traceparents: tuple[str, ...] | None = ()  # of sampled records; None: not known
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def note_headers(self, headers: Headers, *, is_traced: bool) -> None:
        """A record with headers has joined the batch. Only with tracing the client looks at them."""
        if not is_traced:
            self.traceparents = None
        elif self.traceparents is not None:
            self.traceparents += traceparents_of(headers)

    def resolve(
        self,
        base_offset: int,
        log_append_time_ms: int,
        error: BaseException | None,
        record_errors: dict[int, BaseException] | None = None,
    ) -> None:
        """Set the outcome and call back; `record_errors` go before `error`. Later outcomes are ignored: the
        user has seen the first one."""
        if self.is_done:
            return
        self.record_errors = record_errors
        self.base_offset, self.log_append_time_ms, self.error = base_offset, log_append_time_ms, error
        self._finish()

    def split(self, parts: list[tuple[int, Delivery]]) -> None:
        """Take the outcome from smaller deliveries."""
        self.parts = parts
        left = len(parts)

        def one_is_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._finish()

        for _, part in parts:
            part.add_callback(one_is_done)

    def refuse_records(self, record_errors: dict[int, BaseException], rest: Delivery) -> None:
        """The leader rejected these records; the others are sent again, and have the outcome of `rest`."""
        self.record_errors = record_errors
        self.split([(0, rest)])

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call on the IO thread when done, or at once when it is."""
        with _lock:
            if not self.is_done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the outcome; False when it did not come in time.

        Errors: HeadraceError when called on the IO thread, which would have to bring the outcome.
        """
        if self.is_done:
            return True
        if self.io_thread is not None and threading.get_ident() == self.io_thread:
            raise HeadraceError(
                "this would block the client's IO thread, which has to deliver the record: do not wait for a"
                " result inside a callback or interceptor; use add_done_callback"
            )
        event = self._event_unless_done()
        return event is None or event.wait(timeout_s)

    def report(self) -> None:
        """A caller has read the error: neither this outcome nor those of the parts are lost."""
        self.is_reported = True
        for _, part in self.parts or ():
            part.report()

    def has_succeeded(self) -> bool:
        """Whether every record of the batch was acknowledged."""
        if self.record_errors:
            return False
        if self.parts is not None:
            return all(part.has_succeeded() for _, part in self.parts)
        return self.is_done and self.error is None

    def outcome(self, index: int) -> tuple[int, int, BaseException | None]:
        """(offset, log append time or -1, error) of the record at `index`; only when done."""
        if self.record_errors:
            if index in self.record_errors:
                return -1, -1, self.record_errors[index]
            if self.parts is not None:
                index -= bisect_left(list(self.record_errors), index)
        if self.parts is not None:
            first, part = next(pair for pair in reversed(self.parts) if pair[0] <= index)
            return part.outcome(index - first)
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return offset, self.log_append_time_ms, self.error

    def _event_unless_done(self) -> threading.Event | None:
        with _lock:
            if not self.is_done and self._event is None:
                self._event = threading.Event()
            return self._event

    def _finish(self) -> None:
        with _lock:
            if self.is_done:
                return
            self.is_done = True
            callbacks, self._callbacks = self._callbacks, None
            event, self._event = self._event, None
        if event is not None:
            event.set()
        for callback in callbacks or ():
            callback()


class RecordFuture:
    """The outcome of one record. Has the reading half of concurrent.futures.Future."""

    # Where the codec is compiled, so are these fields; see `compiled_twin`.
    __slots__ = ("_index", "_key_size", "_timestamp", "_value_size", "delivery")

    def __init__(
        self, delivery: Delivery, index: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        self.delivery, self._index, self._timestamp = delivery, index, timestamp
        self._key_size, self._value_size = key_size, value_size

    def done(self) -> bool:
        """True once the record is acknowledged or has failed."""
        return self.delivery.is_done

    def running(self) -> bool:
        """True until it is done."""
        return not self.delivery.is_done

    def cancelled(self) -> bool:
        """Always False."""
        return False

    def cancel(self) -> bool:
        """Always False: a record that was sent cannot be cancelled."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Partition, offset and timestamp of the record. `timeout` in seconds.

        Errors: ApiTimeoutError (a TimeoutError) when it is not done in time; otherwise the delivery error.
        """
        metadata, error = self._get(timeout)
        if error is not None:
            raise error
        return metadata

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The delivery error, or None. Errors: ApiTimeoutError."""
        return self._get(timeout)[1]

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Call `callback(self)` on the IO thread when done, or at once in this thread if it is.

        The callback must not block. Its errors are logged.
        """
        self.delivery.add_callback(lambda: call_user(callback, self))

    def outcome(self, timeout: float | None = None) -> tuple[RecordMetadata, BaseException | None]:
        """Metadata and error; with an error the offset is -1. Errors: ApiTimeoutError."""
        return self._get(timeout)

    def peek(self) -> tuple[RecordMetadata, BaseException | None]:
        """`outcome` of a record that is done, for callers other than the sender: `close` still raises an
        error that only they have read."""
        delivery = self.delivery
        offset, append_ms, error = delivery.outcome(self._index)
        timestamp = self._timestamp if append_ms < 0 else append_ms
        metadata = RecordMetadata(
            delivery.topic, delivery.partition, offset, timestamp, self._key_size, self._value_size
        )
        return metadata, error

    def __repr__(self) -> str:
        return self._text()

    def _text(self) -> str:
        where = f"{self.delivery.topic}-{self.delivery.partition}"
        if not self.done():
            return f"<RecordFuture {where} pending>"
        offset, _, error = self.delivery.outcome(self._index)
        return f"<RecordFuture {where} " + (f"failed {error!r}>" if error else f"at {offset}>")

    def _get(self, timeout: float | None) -> tuple[RecordMetadata, BaseException | None]:
        delivery = self.delivery
        if not delivery.is_done and not delivery.wait(timeout):
            raise ApiTimeoutError(
                f"the record is not acknowledged after {timeout} s; it may still be delivered"
            )
        metadata, error = self.peek()
        if error is not None:
            delivery.report()
        return metadata, error


if not TYPE_CHECKING:
    RecordFuture = compiled_twin(RecordFuture)


class RefusedRecords:
    """Records of a batch that the leader rejected while the others are sent again; see `Losses`."""

    __slots__ = ("_delivery", "error")

    def __init__(self, delivery: Delivery, record_errors: dict[int, BaseException]) -> None:
        self._delivery = delivery
        self.error = record_errors[min(record_errors)]

    @property
    def is_reported(self) -> bool:
        """Whether a caller has read the error of a record of the batch."""
        return self._delivery.is_reported


class FailedFuture(RecordFuture):
    """A record that was never buffered."""

    __slots__ = ()

    def __init__(self, topic: str, partition: int, error: BaseException) -> None:
        delivery = Delivery(topic, partition, None)
        delivery.resolve(-1, -1, error)
        super().__init__(delivery, 0, -1, -1, -1)


class Run:
    """Consecutive records of a `send_many` in one batch."""

    __slots__ = ("count", "delivery", "first_index", "timestamp", "value_sizes")

    def __init__(
        self, delivery: Delivery, first_index: int, timestamp: int, value_sizes: Sequence[int]
    ) -> None:
        self.delivery, self.first_index, self.timestamp = delivery, first_index, timestamp
        self.value_sizes = value_sizes
        self.count = len(value_sizes)

    def future(self, index: int) -> RecordFuture:
        """The future of the record at `index` of the run."""
        size = self.value_sizes[index]
        return RecordFuture(self.delivery, self.first_index + index, self.timestamp, -1, size)


class BatchResult:
    """The outcomes of `send_many`, one per record, in their order; some may fail while others succeed."""

    def __init__(self, parts: list[RecordFuture | Run]) -> None:
        self._parts = parts
        counts = (part.count if isinstance(part, Run) else 1 for part in parts)
        self._starts = [0, *accumulate(counts)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[RecordFuture]:
        for part in self._parts:
            if isinstance(part, Run):
                yield from map(part.future, range(part.count))
            else:
                yield part

    def __getitem__(self, index: int) -> RecordFuture:
        index = range(len(self))[index]  # negative ones too; IndexError beyond
        number = bisect_right(self._starts, index) - 1
        part = self._parts[number]
        return part.future(index - self._starts[number]) if isinstance(part, Run) else part

    def done(self) -> bool:
        """True once every record has its outcome."""
        return all(delivery.is_done for delivery in self.deliveries())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all outcomes, `timeout` seconds in all; False on a timeout."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        for delivery in self.deliveries():
            left = None if ends_at is None else max(ends_at - time.monotonic(), 0)
            if not delivery.wait(left):
                return False
        return True

    def errors(self, timeout: float | None = None) -> dict[int, BaseException]:
        """The errors of failed records by index; waits. Errors: ApiTimeoutError."""
        self._wait_or_raise(timeout)
        if all(delivery.has_succeeded() for delivery in self.deliveries()):
            return {}
        outcomes = ((index, future.exception()) for index, future in enumerate(self))
        return {index: error for index, error in outcomes if error is not None}

    def results(self, timeout: float | None = None) -> list[RecordMetadata]:
        """The metadata of each record; waits. Errors: ApiTimeoutError; ExceptionGroup when any record
        failed."""
        self.raise_for_errors(timeout)
        return [future.result() for future in self]

    def raise_for_errors(self, timeout: float | None = None) -> None:
        """Wait, then raise an ExceptionGroup of the distinct errors if any record failed."""
        failed = self.errors(timeout)
        if failed:
            distinct = list({id(error): error for error in failed.values()}.values())
            raise BaseExceptionGroup(f"{len(failed)} of {len(self)} records were not delivered", distinct)

    def deliveries(self) -> list[Delivery]:
        """The distinct batches of the records."""
        return list(dict.fromkeys(part.delivery for part in self._parts))

    def _wait_or_raise(self, timeout: float | None) -> None:
        if not self.wait(timeout):
            raise ApiTimeoutError(f"not all records were acknowledged within {timeout} s")

    def __repr__(self) -> str:
        done = sum(future.done() for future in self)
        return f"<BatchResult {done} of {len(self)} done>"


async def until_done(deliveries: list[Delivery]) -> None:
    """Wait on the loop that resolves them until all deliveries have their outcome."""
    left = [delivery for delivery in deliveries if not delivery.is_done]
    if not left:
        return
    everything = asyncio.get_running_loop().create_future()
    count = len(left)

    def one_is_done() -> None:
        nonlocal count
        count -= 1
        if not count and not everything.done():
            everything.set_result(None)

    for delivery in left:
        delivery.add_callback(one_is_done)
    await everything
