# Made by `python -m headrace.services.sync_clients` from clients/aio/group_io.py: edit that file.
"""The synchronous consumer in its group: subscriptions, rebalance callbacks, commits."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ...protocol.errors import ConfigError, HeadraceError
from ..consumer.arguments import named_partitions
from ..group.listeners import Callbacks
from ..group.offsets_to_commit import no_group, offsets_to_commit
from ..group.subscription import checked_subscription
from ..records import K, V

if TYPE_CHECKING:
    import concurrent.futures
    import re
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from ...protocol.model import TopicPartition
    from ..cluster.cluster_io import ClusterIo
    from ..config import ConsumerConfig
    from ..consumer.arguments import SomePartitions
    from ..consumer.consumer_io import ConsumerEngine
    from ..group.group_metadata import GroupMetadata, OffsetAndMetadata
    from ..group.listeners import RebalanceCallback, SomeListener
    from ..group.member import OwnershipChange
    from ..group.membership_io import Membership
    from ..group.offsets_to_commit import Offsets
    from ..records import Record

    Committed = dict[TopicPartition, OffsetAndMetadata]


class GroupConsumer(Generic[K, V]):
    """The part of `Consumer` that needs a group."""

    _io: ClusterIo
    config: ConsumerConfig

    def __init__(self) -> None:
        self._callbacks = Callbacks()
        self._is_serving = False

    # --- the subscription -------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read these topics, or all that match a pattern as a whole, together with the other members of the
        group. It replaces the previous subscription.

        Under the new protocol the coordinator matches a pattern that is text, by the rules of RE2; a compiled
        pattern is matched by the client. The listener, or single functions, are called with (consumer,
        partitions) inside `poll` or an iteration. Coroutine functions are awaited there. Errors: ConfigError
        without a group, after `assign`, or for a bad pattern.
        """
        group = self._group
        if self._engine.assigned():
            raise ConfigError("this consumer has partitions by `assign`; `unsubscribe` first")
        wanted = checked_subscription(topics, pattern, internal=not self.config.exclude_internal_topics)
        single = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        self._callbacks = Callbacks(listener, awaits=not self._io.is_threaded, **single)
        self._io.run(group.subscribe, wanted)

    def unsubscribe(self) -> None:
        """Stop reading and leave the group; processed records are committed first (auto-commit)."""
        self._leave("unsubscribed", None, None)
        if self._engine.assigned():
            self._io.run(self._engine.assign, ())

    def subscription(self) -> tuple[str, ...]:
        """The topics of the subscription; of a pattern those that match now."""
        return self._group.topics()

    def group_metadata(self) -> GroupMetadata:
        """Group id, member id and generation, as `send_offsets_to_transaction` takes them."""
        return self._group.metadata

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group for a rebalance that nothing else causes (KIP-568). Errors: ConfigError under the new
        protocol, where the coordinator alone decides."""
        self._io.run(self._group.enforce_rebalance, reason or "the user asked for it")

    # --- commits ----------------------------------------------------------------------------------------

    def commit(
        self,
        what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None,
        *,
        timeout: float | None = None,
    ) -> Committed:
        """Commit, and wait for the coordinator: all records returned so far, or up to a record (inclusive),
        or up to the last of some records of each partition, or offsets by partition. Gives the offsets.

        It waits through rebalances that leave the partitions here. Errors: CommitFailedError when a partition
        is no longer assigned to this member, FencedInstanceIdError, ApiTimeoutError, ConfigError without a
        group.
        """
        offsets = offsets_to_commit(what)
        return self._io.call(self._group.commit(offsets, self._deadline_ms(timeout)))

    def commit_async(
        self,
        what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None,
        *,
        callback: Callable[[Committed | None, HeadraceError | None], None] | None = None,
    ) -> concurrent.futures.Future[Committed]:
        """`commit` without waiting; an earlier commit never overwrites a later one.

        `callback` is called with (offsets, None) or (None, error), on the IO thread: it must
        neither block nor call this consumer.

        Errors: ClosedError, raised here, of a closed consumer. In the future and the callback: those of
        `commit`, and ClosedError if the consumer closes before the commit ends.
        """
        self._engine.buffer.raise_if_closed()
        offsets = offsets_to_commit(what)
        if offsets is None:
            offsets = self.handed_out()
        begin = partial(self._group.start_commit, offsets, self._deadline_ms(None))
        outcome = self._io.start(begin)

        def on_done(done: concurrent.futures.Future[Committed]) -> None:
            if callback is not None and not done.cancelled():
                error = done.exception()
                callback(None if error else done.result(), error)  # type: ignore[arg-type]

        outcome.add_done_callback(on_done)
        return outcome

    def offsets_for_transaction(
        self, what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None
    ) -> tuple[Offsets, GroupMetadata]:
        """The arguments of `Producer.send_offsets_to_transaction`, for `what` as in `commit`. It ends
        auto-commit: from now on transactions commit the offsets. Errors: ConfigError without a group;
        TypeError, ValueError."""
        group, offsets = self._group, offsets_to_commit(what)
        group.auto_commits = False
        return self.handed_out() if offsets is None else offsets, group.metadata

    def handed_out(self) -> Committed:
        """The offset after the last returned record of each partition: what `commit()` commits."""
        return {tp: offset for tp, (_, offset) in self._engine.positions(processed=False).items()}

    def committed(
        self, *tps: SomePartitions, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of partitions (by default those that are read); None without a commit."""
        group = self._group
        named = named_partitions(tps)
        wanted = self._engine.assignment() if named is None else named
        return self._io.call(group.committed(wanted, self._deadline_ms(timeout)))

    # --- traces -----------------------------------------------------------------------------------------

    def process_span(self, record: Record[Any, Any]) -> AbstractContextManager[Any]:
        """`with consumer.process_span(record):` around the processing of a record that `poll` has returned:
        with enable.tracing a span if the record is sampled, which is then current. Iterations over records
        need no call."""
        tracing = self._engine.tracing
        return nullcontext() if tracing is None else tracing.process(record)

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _engine(self) -> ConsumerEngine:
        raise NotImplementedError

    def _deadline_ms(self, timeout: float | None) -> int:
        raise NotImplementedError

    @property
    def _group(self) -> Membership:
        if self._engine.group is None:
            raise no_group()
        return self._engine.group

    def _serve(self, engine: ConsumerEngine, left_s: float | None) -> bool:
        """Call the rebalance callbacks that are due. It waits up to `left_s` for the commit before a
        revocation; False when that commit is still in flight: no record may be returned. Errors: what ended
        the membership, and those of the callbacks."""
        if self._is_serving:
            raise HeadraceError("a rebalance callback cannot ask for records")
        if engine.buffer.has_group_work:
            engine.reader.processed()  # and auto-commit commits their offsets before the revocation
        while engine.buffer.has_group_work:
            change = self._io.call(self._group.begin(left_s))
            if change is None:
                return not self._group.is_committing
            try:
                self._call_back(change)
            finally:
                self._io.run(self._group.done)
        return True

    def _call_back(self, change: OwnershipChange) -> None:
        callback = self._callbacks.get(change.kind.value)
        if callback is None:
            return
        self._is_serving = True
        try:
            self._io.call_user(callback, self, change.partitions)
        finally:
            self._is_serving = False

    def _leave(self, reason: str, leave: bool | None, timeout: float | None) -> None:
        group = self._engine.group
        if group is None:
            return
        deadline_ms = self._deadline_ms(timeout)
        change = self._io.call(group.leaving(deadline_ms))
        try:
            if change is not None:
                self._call_back(change)
        finally:
            if leave is None:
                leave = not self.config.group_instance_id
            self._io.call(group.unsubscribe(leave=leave, reason=reason, deadline_ms=deadline_ms))
