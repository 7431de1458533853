"""The asyncio consumer's face of its group: subscriptions, rebalances, commits."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Generic

from ...protocol.errors import ConfigError, HeadraceError
from ..consumer.incoming import named_partitions
from ..group.listeners import Callbacks
from ..group.offsets_to_commit import no_group, offsets_to_commit
from ..group.subscription import checked_subscription
from ..records import K, V

if TYPE_CHECKING:
    import asyncio
    import re
    from collections.abc import Callable, Iterable

    from ...protocol.model import TopicPartition
    from ..config import ConsumerConfig
    from ..consumer.consumer_io import ConsumerEngine
    from ..consumer.incoming import SomePartitions
    from ..group.group_metadata import GroupMetadata, OffsetAndMetadata
    from ..group.listeners import RebalanceCallback, SomeListener
    from ..group.member import Work
    from ..group.membership_io import Membership
    from ..group.offsets_to_commit import Offsets
    from ..records import Record

    Committed = dict[TopicPartition, OffsetAndMetadata]


class AsyncGroupFace(Generic[K, V]):
    """The part of `AsyncConsumer` that has to do with its group. As the sync one, to be awaited."""

    config: ConsumerConfig

    def __init__(self) -> None:
        self._callbacks = Callbacks()
        self._is_serving = False

    # --- the subscription -------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: Iterable[str] | str = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: SomeListener | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Share these topics, or all that match a pattern as a whole, with the other members of the group.

        As `Consumer.subscribe`; callbacks may be coroutine functions, and are awaited in the task that reads.
        """
        group = self._group
        if self._engine.assigned():
            raise ConfigError("this consumer has partitions by `assign`; `unsubscribe` first")
        wanted = checked_subscription(topics, pattern, internal=not self.config.exclude_internal_topics)
        self._callbacks = Callbacks(
            listener, awaits=True, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
        )
        group.subscribe(wanted)

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group; finished work is committed first (auto-commit)."""
        await self._leave("unsubscribed", None, None)
        if old := self._engine.assigned():
            self._engine.assign(())
            self._engine.watch_assigned(old)

    def subscription(self) -> tuple[str, ...]:
        """The topics of the subscription; of a pattern those that match now."""
        return self._group.topics()

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, as transactions name it."""
        return self._group.metadata

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group share out anew although nothing asks for it (KIP-568). Errors: as the sync one."""
        self._group.enforce_rebalance(reason or "the user asked for it")

    # --- commits ----------------------------------------------------------------------------------------

    async def commit(
        self,
        what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None,
        *,
        timeout: float | None = None,
    ) -> Committed:
        """Commit: everything handed out so far, or up to a record, ... As `Consumer.commit`."""
        return await self._group.commit(offsets_to_commit(what), self._deadline_ms(timeout))

    def commit_async(
        self,
        what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None,
        *,
        callback: Callable[[Committed | None, HeadraceError | None], None] | None = None,
    ) -> asyncio.Future[Committed]:
        """`commit` without waiting; a later commit never loses to an earlier one.

        `callback` gets (offsets, None) or (None, error).
        """
        told = self._group.commit(offsets_to_commit(what), self._deadline_ms(None))

        def settled(done: asyncio.Future[Committed]) -> None:
            if callback is not None and not done.cancelled():
                error = done.exception()
                callback(None if error else done.result(), error)  # type: ignore[arg-type]

        told.add_done_callback(settled)
        return told

    def offsets_for_transaction(
        self, what: Record[K, V] | Iterable[Record[K, V]] | Offsets | None = None
    ) -> tuple[Offsets, GroupMetadata]:
        """What `Producer.send_offsets_to_transaction` takes, for `what` as in `commit`. From now on offsets
        are left to transactions: auto-commit ends. Errors: ConfigError without a group; TypeError,
        ValueError."""
        group, offsets = self._group, offsets_to_commit(what)
        group.auto_commits = False
        return self.handed_out() if offsets is None else offsets, group.metadata

    def handed_out(self) -> Committed:
        """The next offset of each partition behind what was handed out: what `commit()` commits."""
        return {tp: offset for tp, (_, offset) in self._engine.positions(finished=False).items()}

    async def committed(
        self, *tps: SomePartitions, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for partitions (by default those that are read); None for nothing."""
        group = self._group
        named = named_partitions(tps)
        wanted = self._engine.assignment() if named is None else named
        return await group.committed(wanted, self._deadline_ms(timeout))

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

    async def _serve(self, left_s: float | None = None) -> bool:
        """What the group has for the user's side to do; for the commit before a revocation it waits `left_s`
        at most, and False says that it is not over: nothing may be handed out. Errors: what the user must
        hear, or its callbacks raise."""
        if self._is_serving:
            raise HeadraceError("a rebalance callback cannot ask for records")
        engine = self._engine
        if engine.attention:
            engine.asked()  # the user is back: what it had is finished, and committed before it goes
        while engine.attention:
            work = await self._group.begin(left_s)
            if work is None:
                return not self._group.is_committing
            try:
                await self._tell(work)
            finally:
                self._group.done()
        return True

    async def _tell(self, work: Work) -> None:
        callback = self._callbacks.get(work.kind.value)
        if callback is None:
            return
        self._is_serving = True
        try:
            told = callback(self, work.partitions)
            if inspect.isawaitable(told):
                await told
        finally:
            self._is_serving = False

    async def _leave(self, reason: str, leave: bool | None, timeout: float | None) -> None:
        group = self._engine.group
        if group is None:
            return
        deadline_ms = self._deadline_ms(timeout)
        work = await group.leaving(deadline_ms)
        try:
            if work is not None:
                await self._tell(work)
        finally:
            if leave is None:
                leave = not self.config.group_instance_id
            await group.unsubscribe(leave=leave, reason=reason, deadline_ms=deadline_ms)
