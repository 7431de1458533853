"""`Sink`: the driver's part of exactly once. It prepares the transactions of its tasks, durably decides to
commit their batch, and then ends them; the next driver completes the rest. See docs/adr/0025."""

from __future__ import annotations

import contextlib
import logging
import re
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    DataLossError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from ...protocol.messages.groups import TRANSACTION_KEY
from ...protocol.messages.registry import END_TXN, PREPARE_TXN
from ...protocol.messages.transactions import EndTxnRequest, PrepareTxnRequest
from ..admin.coordinator_requester_io import CoordinatorRequester
from ..admin.group_types import TransactionState
from ..admin.requester_io import AdminRequester, error_of
from ..admin.transactions_io import TransactionEngine
from ..config import AdminConfig, resolve
from ..producer.transactions import PreparedTransaction
from .commits import (
    COMMITS_TOPIC,
    GONE,
    Decision,
    Gate,
    check_all_prepared,
    checked_batch,
    decoded,
    driver_id,
    encoded,
    first_attempt,
    task_id,
)
from .driver_log_io import DriverLog
from .pool_io import shared_cluster
from .visible_io import is_visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from ..admin.admin_types import Results
    from ..admin.coordinator_requester_io import Coordinator
    from ..admin.group_types import TransactionListing
    from ..cluster.cluster_io import ClusterIo
    from .driver_log_io import Progress
    from .sink_options import WriteOptions
    from .written import PreparedWrite

    Prepared = PreparedWrite | PreparedTransaction

log = logging.getLogger("headrace.client.pipeline")

# States with an open transaction, or possibly one of the attempt that has the id: the other states are
# fenced.
_UNFENCED = ("Empty", "Ongoing", "Prepared")
_PREPARED = ("Prepared",)
# Errors while the markers of transactions committed with it are still being written.
MARKERS_S = 30.0
# Ids of queries that drivers of this process left without prepared transactions, by bootstrap and query: the
# next driver of the query starts right after them. Bound: MAX_LEFT.
_left: dict[tuple[str | None, str], tuple[int, int]] = {}
MAX_LEFT = 1_000


class Sink:
    """The sink of one query; the newest one fences its predecessors.

    Opening it completes a batch that was decided, and aborts transactions that a previous driver prepared
    without a decision. Used by one thread. Errors on opening: DataLossError if rows of a decided batch were
    aborted (with failOnDataLoss=false it is logged, and the batch counts as committed); ApiTimeoutError,
    KafkaError.
    """

    def __init__(self, options: WriteOptions, query: str, *, is_first: bool = False) -> None:
        """`is_first`: this query never had a Sink before."""
        name = driver_id(query)
        self._options, self._query, self._place = options, query, (options.bootstrap, query)
        self._tasks = re.escape(f"{name}/") + ".*"  # the ids of all of its tasks
        self._exit = contextlib.ExitStack()
        try:
            cluster = self._exit.enter_context(shared_cluster(options.bootstrap, options.client))
            self._io: ClusterIo = cluster.io
            self._engine = TransactionEngine(_requester(self._io, options))
            self._log = DriverLog(cluster, options, COMMITS_TOPIC, query, name)
            self._exit.callback(self._log.close)
            self._has_gate = self._is_over = False
            found = self._log.found
            self._last: Decision | None = None if found is None else decoded(query, found)
            self._has_prepared = not is_first and not self._is_next()
            self._finish_last()
            if self._has_prepared:
                # Order: no decided transaction is prepared any more, and no previous driver can decide.
                self._abort_prepared([each.transactional_id for each in self._found(_PREPARED)])
                self._has_prepared = False
        except BaseException:
            self._exit.close()
            raise

    @property
    def last_batch(self) -> int | None:
        """The last committed batch; None before the first."""
        return None if self._last is None else self._last.batch

    def is_committed(self, batch: int) -> bool:
        """Whether a batch was committed: if it runs again, it has nothing to write. Errors: ConfigError for
        an invalid number."""
        number = checked_batch(batch)
        return self._last is not None and number <= self._last.batch

    def commit(
        self, batch: int, writes: Sequence[PreparedWrite], *, progress: Progress | None = None
    ) -> bool:
        """Commit all rows of a batch, whose numbers must increase; False, with these writes aborted, if it
        was committed before. The `progress` of a group, where the next batch starts to read, is committed
        atomically with the decision.

        Errors: InvalidTxnStateError, with everything aborted, if one of the writes cannot be committed any
        more; ProducerFencedError for a driver that is not the newest (which commits nothing);
        ApiTimeoutError, after which the outcome is unknown: open another `Sink`, which completes or undoes
        it. DataLossError as on opening; UnsupportedVersionError, with everything aborted, while nodes are
        older.
        """
        batch = checked_batch(batch)
        self._finish_last()
        real = tuple(dict.fromkeys(each for each in writes if not each.is_empty))
        has_others = any(each.is_retry for each in writes)  # attempts without a message
        if self.is_committed(batch):
            outcomes = self._io.call(_end(self._io, self._options, real, committed=False))
            # they may be the committed ones
            _raise_first(outcomes, but=GONE)
            if has_others:
                self.abort_leftovers()
            return False
        self._has_prepared = True
        may_have_later = self._has_gate or has_others
        if has_others:
            self.abort_leftovers(keep=real)
        try:
            # Order: from here on only this driver or the next one ends them.
            check_all_prepared(real, self._io.call(_prepare(self._io, self._options, real)).errors)
        except (InvalidTxnStateError, UnsupportedVersionError):
            self._show_newest()
            self.abort(real)
            self._has_prepared = False
            if may_have_later:  # the job has ended, and so has a later attempt that is the reason
                self.abort_leftovers()
            raise
        decision = Decision(batch, not real, real)
        self._record(decision, progress)
        if real:
            self._finish(decision)
        self._has_prepared = False
        return True

    def abort(self, writes: Sequence[PreparedWrite]) -> None:
        """Abort prepared writes; idempotent. Errors: ApiTimeoutError."""
        abort_writes(writes, self._options)

    def open_gate(self) -> Gate:
        """For `prepare_arrow` in the tasks of one job; closed by `commit`, by `abort_leftovers` and by the
        next `Sink` of the query. A later attempt writes nothing, and leaves no transaction open."""
        self._has_gate = True
        return Gate(driver_id(self._query), self._log.producer)

    def abort_leftovers(self, keep: Sequence[PreparedWrite] = ()) -> int:
        """Abort open transactions of this query's tasks except `keep`: attempts without a commit message, for
        which read_committed consumers would wait until transaction.timeout.ms; returns their number. No
        running attempt can write afterwards, and no later one with an older gate.

        Call it after a failed job, and before a driver's first one. A decided batch is completed first.
        Errors: ProducerFencedError, with nothing aborted, in a driver that is not the newest; as on opening.
        """
        self._finish_last()
        # Order: an attempt that found the gate open has initialized its id already, and is among those found.
        self._show_newest()
        done, count = {each.transactional_id for each in keep}, 0
        while True:
            # Once more than necessary: an id is in no response if its coordinator moves between two requests.
            found = self._found(_UNFENCED)
            new = {each.transactional_id: each.state for each in found if each.transactional_id not in done}
            if not new:
                return count
            self._abort_prepared([name for name, state in new.items() if state is TransactionState.PREPARED])
            _raise_first(self._io.call(self._engine.fence(list(new), timeout=None)))
            done.update(new)
            count += sum(state is not TransactionState.EMPTY for state in new.values())

    def fence(self, tasks: Iterable[str]) -> None:
        """Abort the open transactions of these tasks, and fence their running attempts, whatever their
        numbers."""
        names = {task_id(self._query, task) for task in tasks}
        found = [each.transactional_id for each in self._found(_UNFENCED)]
        names.update([each for each in found if first_attempt(each) in names])
        _raise_first(self._io.call(self._engine.fence(sorted(names), timeout=None)))

    def forget(self) -> None:
        """Delete the record of the query from the commit log, when it has ended. Errors: as `commit`."""
        self._log.put(None)
        self._last, self._is_over = None, True

    def close(self) -> None:
        """Close the connections; open transactions stay open."""
        if self._has_prepared or self._is_over:
            _left.pop(self._place, None)
        else:
            _left[self._place] = self._log.producer
            while len(_left) > MAX_LEFT:
                del _left[next(iter(_left))]
        self._exit.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _record(self, decision: Decision, progress: Progress | None = None) -> None:
        self._log.put(encoded(decision), progress)
        self._last, self._has_gate = decision, False

    def _found(self, states: Sequence[str]) -> list[TransactionListing]:
        """The tasks of this query in these states."""
        found = self._engine.find(states, (), longer_than=None, pattern=self._tasks, timeout=None)
        return self._io.call(found)

    def _finish_last(self) -> None:
        if self._last is not None and not self._last.is_done:
            self._finish(self._last)

    def _abort_prepared(self, names: Sequence[str]) -> None:
        """Abort prepared but undecided transactions of these ids; one that ends meanwhile is ignored."""
        if not names:
            return
        found = self._io.call(self._engine.describe(names, timeout=None))
        _raise_first(found, but=(TransactionalIdNotFoundError,))
        known = [found[name] for name in names if name not in found.errors]
        writes = [
            PreparedTransaction(each.transactional_id, each.producer_id, each.producer_epoch, is_empty=False)
            for each in known
            if each.state is TransactionState.PREPARED
        ]
        # Order: this driver has not seen transactions that a later driver prepared, and ends those it has
        # seen by producer id and epoch. So a decision of a later driver is never undone.
        self._show_newest()
        _raise_first(self._io.call(_end(self._io, self._options, writes, committed=False)), but=GONE)

    def _is_next(self) -> bool:
        """Whether the previous driver was one of this process that left no prepared transactions: listing
        them on all nodes takes as long as a batch. Each new driver increments the epoch by at least one."""
        producer_id, epoch = self._log.producer
        return _left.pop(self._place, None) == (producer_id, epoch - 1)

    def _show_newest(self) -> None:
        """Write the current record again, which closes the gate. Errors: ProducerFencedError."""
        self._log.put(self._log.found)
        self._has_gate = False

    def _finish(self, decision: Decision) -> None:
        outcomes = self._io.call(_end(self._io, self._options, decision.writes, committed=True))
        lost = []
        for write in decision.writes:
            error = outcomes.errors.get(write.transactional_id)
            if isinstance(error, GONE):
                # It was aborted; or it was committed before, and a later attempt has started since.
                if not is_visible(write, self._options, patience_s=MARKERS_S):
                    lost.append(f"task {write.task} with {write.report.rows} rows ({error})")
            elif error is not None:
                raise error
        if lost:
            text = (
                f"batch {decision.batch} of {self._query!r} is partly lost: the rows of these tasks were"
                f" aborted after the decision: {'; '.join(lost)}"
            )
            if self._options.fail_on_data_loss:
                raise DataLossError(f"{text}. With failOnDataLoss=false the batch counts as committed")
            log.error("%s", text)
        self._record(Decision(decision.batch, is_done=True))


def commit_writes(writes: Sequence[PreparedWrite], options: WriteOptions) -> None:
    """Commit prepared writes one by one, from any process; idempotent. For batches with a single write;
    several are committed together by `Sink`.

    Errors: that of the first failure: InvalidTxnStateError, ProducerFencedError if it was aborted.
    """
    _raise_first(_end_all(writes, options, committed=True))


def abort_writes(writes: Sequence[PreparedWrite], options: WriteOptions) -> None:
    """Abort prepared writes, from any process; idempotent.

    Errors: InvalidTxnStateError for a committed one; ApiTimeoutError.
    """
    fenced = (ProducerFencedError, InvalidProducerIdMappingError)
    _raise_first(_end_all(writes, options, committed=False), but=fenced)


def _raise_first(outcomes: Results[str, Any], but: tuple[type[KafkaError], ...] = ()) -> None:
    for error in outcomes.errors.values():
        if not isinstance(error, but):
            raise error


def _end_all(
    writes: Sequence[PreparedWrite], options: WriteOptions, *, committed: bool
) -> Results[str, None]:
    with shared_cluster(options.bootstrap, options.client) as cluster:
        real = [each for each in writes if not each.is_empty]
        return cluster.io.call(_end(cluster.io, options, real, committed=committed))


async def _prepare(io: ClusterIo, options: WriteOptions, writes: Sequence[Prepared]) -> Results[str, None]:
    """The result by transactional id. Idempotent."""

    async def ask(at: Coordinator, write: Prepared) -> KafkaError | None:
        request = PrepareTxnRequest(at.key, write.producer_id, write.producer_epoch)
        return error_of(await at.ask(PREPARE_TXN, request))

    return await _each(io, options, writes, ask)


async def _end(
    io: ClusterIo, options: WriteOptions, writes: Sequence[Prepared], *, committed: bool
) -> Results[str, None]:
    """The result by transactional id. The coordinator accepts a repeated EndTxn, and rejects one for another
    transaction."""

    async def ask(at: Coordinator, write: Prepared) -> KafkaError | None:
        request = EndTxnRequest(at.key, write.producer_id, write.producer_epoch, committed)
        return error_of(await at.ask(END_TXN, request))

    return await _each(io, options, writes, ask)


async def _each(
    io: ClusterIo,
    options: WriteOptions,
    writes: Sequence[Prepared],
    ask: Callable[[Coordinator, Prepared], Awaitable[KafkaError | None]],
) -> Results[str, None]:
    """Send a request for each write to its coordinator; results by transactional id."""
    requester = _requester(io, options)
    by_name = {each.transactional_id: each for each in writes}
    coordinators = CoordinatorRequester(requester, TRANSACTION_KEY)
    return await coordinators.each(list(by_name), lambda at: ask(at, by_name[at.key]), requester.call(None))


def _requester(io: ClusterIo, options: WriteOptions) -> AdminRequester:
    return AdminRequester(io.hub, resolve(AdminConfig, dict(options.client), {}))
