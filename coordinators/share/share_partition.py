"""The delivery state of one partition for one share group. Pure.

The window from `start` to `end` begins with the first record that is not done, and ends with the last one
that was delivered or skipped. Members acquire records for the time of a lock, and acknowledge them.
Acquisitions are in memory only, as in Kafka. Every other change is durable before it is effective:
`acknowledge`, `release` and `expire` return a `Change`, whose batches are written; then `commit` makes it
effective, or `rollback` cancels it. So a failover can deliver a record again, and loses no acknowledgement
that was confirmed. Times are monotonic milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRecordStateError, InvalidRequestError
from .changes import Acknowledgement, AckType, Acquired, Cause, Change, StateBatch
from .runs import Delivery, Run, Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Span = tuple[int, int]  # the first and the last offset


@dataclass(frozen=True)
class ShareLimits:
    """Configuration of a share group, with Kafka's defaults."""

    lock_ms: int = 30_000  # share.record.lock.duration.ms
    deliveries: int = 5  # share.delivery.count.limit
    in_flight: int = 2_000  # group.share.partition.max.record.locks


class SharePartition:
    """Acquires, acknowledges and archives the records of a partition."""

    def __init__(self, start: int, limits: ShareLimits, batches: Iterable[StateBatch] = ()) -> None:
        """Begin at the offset `start` with the durable `batches`, in order. Records between them that no
        batch describes were delivered without a result: they are available."""
        self.limits = limits
        self._runs = Runs(start)
        self._log_start = start
        self._changes: dict[int, Change] = {}
        self._last_change = 0
        for batch in batches:
            if batch.last < self._runs.end:
                continue
            self._extend_to(batch.first, Delivery.AVAILABLE)
            first = self._runs.end
            self._runs.append(Run(first, batch.last, batch.state, batch.deliveries, "", batch.until_ms))
        self._settle(start, self._runs.end)

    @property
    def start(self) -> int:
        """The first offset that is not done."""
        return self._runs.start

    @property
    def end(self) -> int:
        """The offset after the last one that was ever acquired or skipped."""
        return self._runs.end

    @property
    def runs(self) -> Iterator[Run]:
        """All runs from `start` to `end`, for descriptions; not to be changed."""
        return iter(self._runs)

    @property
    def completed(self) -> int:
        """The number of offsets between `start` and `end` that are done."""
        return sum(len(run) for run in self._runs if run.state.is_terminal)

    @property
    def in_flight(self) -> int:
        """The number of offsets between `start` and `end` that are not done."""
        return self.end - self.start - self.completed

    def lag(self, high_watermark: int) -> int:
        """The number of offsets below the high watermark that are not done. Source: KIP-1226."""
        return max(high_watermark - self.start - self.completed, 0)

    # --- delivery -------------------------------------------------------------------------------------------

    def next_fetch_offset(self, now_ms: int) -> int | None:
        """Where the next records for a member are read; None while the limit of records in flight is reached
        and no record in the window can be delivered."""
        for run in self._runs:
            if _is_deliverable(run, now_ms):
                return run.first
        return self.end if self.in_flight < self.limits.in_flight else None

    def acquire(
        self,
        member: str,
        batches: Sequence[Span],
        max_records: int,
        now_ms: int,
        *,
        is_strict: bool = False,
        skipped: Sequence[Span] = (),
    ) -> list[Acquired]:
        """Lock records of the read `batches` for the member.

        `batches` are the spans of consecutive record batches of the log; offsets between them hold no
        records. As in Kafka whole batches are acquired, also beyond `max_records` and the limit of records in
        flight, unless `is_strict`. The `skipped` spans are archived: records of aborted transactions, and
        expired ones.
        """
        acquired: list[Acquired] = []
        left, room = max_records, self.limits.in_flight - self.in_flight
        for first, last in batches:
            if left <= 0 or last < self.start:
                continue
            again = self._acquire_again(member, (first, last), now_ms, left if is_strict else None)
            acquired.extend(again)
            left -= _count(again)
            if last < self.end or left <= 0:
                continue
            if room <= 0:
                break
            self._extend_to(first, Delivery.ARCHIVED)
            taken = self._acquire_new(member, last, min(left, room) if is_strict else None, now_ms, skipped)
            acquired.extend(taken)
            left, room = left - _count(taken), room - _count(taken)
        if batches:
            self._settle(batches[0][0], self.end)
        return _united(acquired)

    def _acquire_again(self, member: str, span: Span, now_ms: int, limit: int | None) -> list[Acquired]:
        """Lock released records of the span, at most `limit`."""
        acquired: list[Acquired] = []
        for run in self._runs.cut(*span):
            if limit is not None and limit <= 0:
                break
            if not _is_deliverable(run, now_ms):
                continue
            taken = run
            if limit is not None:
                (taken,) = self._runs.cut(run.first, min(run.last, run.first + limit - 1))
                limit -= len(taken)
            self._lock(taken, member, now_ms)
            acquired.append(Acquired(taken.first, taken.last, taken.deliveries))
        return acquired

    def _acquire_new(
        self, member: str, last: int, limit: int | None, now_ms: int, skipped: Sequence[Span]
    ) -> list[Acquired]:
        """Extend the window to `last`, or until `limit` records are locked."""
        acquired: list[Acquired] = []
        for first, final, is_skipped in _pieces(self.end, last, skipped):
            run = Run(first, final, Delivery.ARCHIVED)
            if not is_skipped:
                if limit is not None:
                    if limit <= 0:
                        break
                    run.last = min(final, first + limit - 1)
                    limit -= len(run)
                self._lock(run, member, now_ms)
                acquired.append(Acquired(run.first, run.last, run.deliveries))
            self._runs.append(run)
            if run.last < final:
                break
        return acquired

    def _lock(self, run: Run, member: str, now_ms: int) -> None:
        run.state, run.member, run.until_ms = Delivery.ACQUIRED, member, now_ms + self.limits.lock_ms
        run.deliveries += 1

    # --- results --------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, results: Sequence[Acknowledgement], now_ms: int) -> Change:
        """The change by the results of a member: all of them or none. Renewals are effective at once.

        Offsets before `start` are done, and ignored. Errors: InvalidRequestError if offsets are not in order
        or the number of types is wrong, InvalidRecordStateError if the member has not acquired one of the
        records.
        """
        decided = list(self._decisions(member, results))
        batches: list[StateBatch] = []
        for run, kind, delay_ms in decided:
            if kind is AckType.RENEW:
                run.until_ms = now_ms + self.limits.lock_ms
            elif kind is AckType.RELEASE:
                batches.append(self._released(run, now_ms + delay_ms if delay_ms else 0))
            elif kind is AckType.ACCEPT:
                batches.append(_state(run, Delivery.ACKNOWLEDGED))
            else:
                cause = Cause.REJECTED if kind is AckType.REJECT else Cause.NONE
                batches.append(_state(run, Delivery.ARCHIVED, cause))
        return self._begin(batches)

    def _decisions(
        self, member: str, results: Sequence[Acknowledgement]
    ) -> Iterator[tuple[Run, AckType, int]]:
        """The runs of a request with their result. Errors: as `acknowledge`, before the first one."""
        _check_order(results)
        spans = [
            (max(first, self.start), last, kind, each.delay_ms)
            for each in results
            for first, last, kind in _by_type(each)
            if last >= self.start
        ]
        for first, last, _, _ in spans:
            self._check_acquired(member, first, last)
        for first, last, kind, delay_ms in spans:
            for run in self._runs.cut(first, last):
                yield run, kind, delay_ms

    def _check_acquired(self, member: str, first: int, last: int) -> None:
        runs = self._runs.cut(first, last)
        if not runs or runs[0].first > first or runs[-1].last < last:
            raise InvalidRecordStateError(f"offsets {first} to {last} have not been delivered")
        for run in runs:
            if run.state is not Delivery.ACQUIRED or run.member != member or run.change:
                state = "being changed" if run.change else run.state.name.lower()
                where = f"offsets {run.first} to {run.last}"
                raise InvalidRecordStateError(f"{where} are not acquired by member {member}: {state}")

    def release(self, member: str) -> Change:
        """The change that makes all records of a member available: it has left, or its session has ended."""
        return self._release(lambda run: run.member == member)

    def expire(self, now_ms: int) -> Change:
        """The change that makes records available whose locks have expired."""
        return self._release(lambda run: run.until_ms <= now_ms)

    def next_expiry_ms(self) -> int | None:
        """When the next lock expires or the next delayed record becomes available."""
        waiting = (run for run in self._runs if not run.change)
        return min((run.until_ms for run in waiting if run.until_ms), default=None)

    def _release(self, concerns: Callable[[Run], bool]) -> Change:
        runs = [
            run for run in self._runs if run.state is Delivery.ACQUIRED and not run.change and concerns(run)
        ]
        return self._begin([self._released(run, 0) for run in runs])

    def _released(self, run: Run, until_ms: int) -> StateBatch:
        if run.deliveries >= self.limits.deliveries:
            return _state(run, Delivery.ARCHIVED, Cause.DELIVERY_LIMIT)
        return StateBatch(run.first, run.last, Delivery.AVAILABLE, run.deliveries, until_ms)

    # --- changes --------------------------------------------------------------------------------------------

    def _begin(self, batches: list[StateBatch]) -> Change:
        self._last_change += 1
        change = Change(self._last_change, _united_states(batches))
        if batches:
            self._changes[change.number] = change
        for batch in change.batches:
            for run in self._runs.cut(batch.first, batch.last):
                run.change = change.number
        return change

    def commit(self, change: Change) -> None:
        """The change is durable: it becomes effective."""
        for batch, run in self._end(change):
            run.state, run.deliveries, run.until_ms = batch.state, batch.deliveries, batch.until_ms
            run.member, run.change = "", 0
        self._after(change)

    def rollback(self, change: Change) -> None:
        """The change could not be written: its records are acquired as before. Expired ones expire again."""
        for _, run in self._end(change):
            run.change = 0
        self._after(change)

    def _end(self, change: Change) -> list[tuple[StateBatch, Run]]:
        """The runs of an open change; none of one that has ended."""
        if self._changes.pop(change.number, None) is None:
            return []
        return [(batch, run) for batch in change.batches for run in self._runs.cut(batch.first, batch.last)]

    def _after(self, change: Change) -> None:
        if change.batches:
            self._settle(change.batches[0].first, change.batches[-1].last)

    def advance_log_start(self, log_start: int) -> None:
        """The log begins at `log_start` now: available records before it are archived, acquired ones stay
        until they have a result."""
        if log_start <= self._log_start:
            return
        self._log_start = log_start
        self._extend_to(log_start, Delivery.ARCHIVED)
        self._settle(self.start, log_start)

    def _extend_to(self, offset: int, state: Delivery) -> None:
        """Extend the window to before `offset` with records of this state."""
        if offset > self.end:
            self._runs.append(Run(self.end, offset - 1, state))

    def _settle(self, first: int, last: int) -> None:
        """Restore the rules of the window after changes to these offsets."""
        for run in self._runs.cut(self.start, self._log_start - 1):
            if run.state is Delivery.AVAILABLE:
                run.state = Delivery.ARCHIVED
        self._runs.join(min(first, self.start) if first < self._log_start else first, last)
        self._runs.drop_leading()

    def durable(self) -> list[StateBatch]:
        """The state for a snapshot, without effects of open changes. An acquired record is available with one
        delivery less: acquisitions are not durable."""
        return _united_states(_durable(run) for run in self._runs)


def _is_deliverable(run: Run, now_ms: int) -> bool:
    return run.state is Delivery.AVAILABLE and run.until_ms <= now_ms


def _durable(run: Run) -> StateBatch:
    if run.state is Delivery.ACQUIRED:
        return StateBatch(run.first, run.last, Delivery.AVAILABLE, run.deliveries - 1)
    return StateBatch(run.first, run.last, run.state, run.deliveries, run.until_ms)


def _count(acquired: Iterable[Acquired]) -> int:
    return sum(each.last - each.first + 1 for each in acquired)


def _state(run: Run, state: Delivery, cause: Cause = Cause.NONE) -> StateBatch:
    return StateBatch(run.first, run.last, state, run.deliveries, 0, cause)


def _check_order(results: Sequence[Acknowledgement]) -> None:
    """Errors: InvalidRequestError if offsets overlap or descend, or the number of types is wrong."""
    previous = -1
    for each in results:
        if not previous < each.first <= each.last:
            raise InvalidRequestError(f"offsets {each.first} to {each.last} after offset {previous}")
        if len(each.types) not in (1, each.last - each.first + 1):
            text = f"{len(each.types)} acknowledgement types for the offsets {each.first} to {each.last}"
            raise InvalidRequestError(text)
        previous = each.last


def _by_type(result: Acknowledgement) -> Iterator[tuple[int, int, AckType]]:
    """The spans of equal type."""
    first, types = result.first, result.types
    if len(types) == 1:
        yield first, result.last, types[0]
        return
    begin = 0
    for position in range(1, len(types) + 1):
        if position == len(types) or types[position] is not types[begin]:
            yield first + begin, first + position - 1, types[begin]
            begin = position


def _pieces(first: int, last: int, skipped: Sequence[Span]) -> Iterator[tuple[int, int, bool]]:
    """The span in order as pieces that are skipped or not."""
    for low, high in skipped:
        low, high = max(low, first), min(high, last)
        if low > high:
            continue
        if first < low:
            yield first, low - 1, False
        yield low, high, True
        first = high + 1
    if first <= last:
        yield first, last, False


def _united(acquired: Iterable[Acquired]) -> list[Acquired]:
    united: list[Acquired] = []
    for each in acquired:
        before = united[-1] if united else None
        if before and (before.last + 1, before.deliveries) == (each.first, each.deliveries):
            united[-1] = before._replace(last=each.last)
        else:
            united.append(each)
    return united


def _united_states(batches: Iterable[StateBatch]) -> list[StateBatch]:
    united: list[StateBatch] = []
    for each in batches:
        before = united[-1] if united else None
        if before and before.last + 1 == each.first and before[2:] == each[2:]:
            united[-1] = before._replace(last=each.last)
        else:
            united.append(each)
    return united
