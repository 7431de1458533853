"""Commits of one consumer: one request at a time, in the order in which they were asked for.

What is asked for while one is under way is merged into the next: the later offset of a partition counts. So
an older offset never overwrites a newer one, and many small commits cost few requests. A commit waits while
the member joins or syncs, and goes out under the generation that follows, if its partitions are still the
member's; otherwise it fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    ApiTimeoutError,
    ClosedError,
    CommitFailedError,
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    HeadraceError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    error_from_code,
)
from ...protocol.messages.groups import CommittedOffset, OffsetCommitRequest
from ...protocol.messages.registry import OFFSET_COMMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...protocol.model import TopicPartition
    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from .coordinator_io import CoordinatorLink
    from .figures import GroupFigures
    from .group_metadata import GroupMetadata, OffsetAndMetadata

NOT_A_MEMBER = (UnknownMemberIdError, IllegalGenerationError, FencedMemberEpochError)


class Standing(NamedTuple):
    """How the member stands as far as commits go."""

    metadata: GroupMetadata
    may_commit: bool  # False: it is between two generations
    # Its partitions, each with the number of the take-over; None: they were assigned by hand.
    owned: Mapping[TopicPartition, int] | None
    error: HeadraceError | None = None


class _Wish(NamedTuple):
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline_ms: int
    done: asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]
    owned: Mapping[TopicPartition, int] | None  # when it was wished


class Committer:
    """The commits of one consumer, on its loop. `refused` is told when the group does not know the member."""

    def __init__(
        self,
        hub: Hub,
        link: CoordinatorLink,
        backoff: Backoff,
        standing: Callable[[], Standing],
        refused: Callable[[KafkaError], None],
        figures: GroupFigures,
    ) -> None:
        self._hub, self._link, self._backoff, self._figures = hub, link, backoff, figures
        self._standing, self._refused = standing, refused
        self._wishes: list[_Wish] = []
        self._is_running = False
        self._changed = asyncio.Event()
        self._closed: HeadraceError | None = None

    def standing_changed(self) -> None:
        """Commits that wait may go on."""
        self._changed.set()

    def submit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]:
        """Commit these, behind what was submitted before.

        Errors, in the future: CommitFailedError when a partition is not the member's any more,
        FencedInstanceIdError, ApiTimeoutError at the deadline, ClosedError, and whatever the coordinator says
        that no retry helps.
        """
        done: asyncio.Future[dict[TopicPartition, OffsetAndMetadata]] = self._hub.loop.create_future()
        if self._closed is not None:
            done.set_exception(self._closed)
        else:
            self._wishes.append(_Wish(offsets, deadline_ms, done, self._standing().owned))
            if not self._is_running and self._hub.tasks.spawn(self._run()) is not None:
                self._is_running = True
        return done

    def all_ended(self, deadline_ms: int) -> asyncio.Future[dict[TopicPartition, OffsetAndMetadata]] | None:
        """Done when all that was submitted has ended, in whatever way; None: it has."""
        return self.submit({}, deadline_ms) if self._is_running else None

    def close(self) -> None:
        """What has not gone out fails."""
        self._closed = ClosedError("the consumer was closed")
        self._changed.set()
        wishes, self._wishes = self._wishes, []
        for wish in wishes:
            _settle(wish, self._closed)

    async def _run(self) -> None:
        try:
            while self._wishes:
                await self._settled(max(wish.deadline_ms for wish in self._wishes))
                wishes, self._wishes = self._wishes, []
                await self._commit(wishes)
        finally:
            self._is_running = False

    async def _settled(self, deadline_ms: int) -> None:
        """Wait until the member is of a generation, or of none."""
        while not self._standing().may_commit and self._closed is None:
            self._changed.clear()
            left_ms = deadline_ms - self._hub.now_ms()
            if left_ms <= 0:
                return
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _commit(self, wishes: list[_Wish]) -> None:
        failures = 0
        last: KafkaError | None = None
        while True:
            wishes = self._still_good(wishes, last)
            if not wishes:
                return
            offsets = {tp: offset for wish in wishes for tp, offset in wish.offsets.items()}
            metadata = self._standing().metadata
            error = await self._attempt(offsets, metadata, max(wish.deadline_ms for wish in wishes))
            if error is None or not self._may_retry(error, metadata):
                for wish in wishes:
                    _settle(wish, error)
                return
            last = error if isinstance(error, KafkaError) else last
            failures += 1
            self._changed.clear()
            left_ms = min(wish.deadline_ms for wish in wishes) - self._hub.now_ms()
            wait_ms = min(self._backoff.wait_ms(failures), max(left_ms, 0))
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await self._settled(max(wish.deadline_ms for wish in wishes))

    def _still_good(self, wishes: list[_Wish], last: KafkaError | None) -> list[_Wish]:
        standing, now_ms = self._standing(), self._hub.now_ms()
        good: list[_Wish] = []
        for wish in wishes:
            gone = [tp for tp in wish.offsets if not _is_kept(tp, wish.owned, standing.owned)]
            if self._closed is not None or standing.error is not None:
                _settle(wish, self._closed or standing.error)
            elif gone:
                _settle(wish, CommitFailedError(f"{gone[0]} is not assigned to this member (any more)"))
            elif not standing.may_commit or wish.deadline_ms <= now_ms:
                error = ApiTimeoutError(
                    "the offsets were not committed in time" + (f": {last}" if last else "")
                )
                error.__cause__ = last
                _settle(wish, error)
            else:
                good.append(wish)
        return good

    async def _attempt(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], metadata: GroupMetadata, deadline_ms: int
    ) -> HeadraceError | None:
        """One request; the error that counts most, of all partitions."""
        if not offsets:
            return None
        request = OffsetCommitRequest(
            metadata.group_id,
            metadata.generation_id,
            metadata.member_id,
            tuple(
                CommittedOffset(*tp, offset.offset, offset.leader_epoch, offset.metadata)
                for tp, offset in offsets.items()
            ),
            metadata.group_instance_id,
        )
        began_ms = self._hub.now_ms()
        try:
            answer = await self._link.ask(OFFSET_COMMIT, request, deadline_ms=deadline_ms)
        except HeadraceError as error:
            return error
        self._figures.asked(OFFSET_COMMIT, began_ms, self._hub.now_ms())
        errors = [
            error_from_code(result.error_code, f"{result.topic}-{result.partition}")
            for result in answer.results
            if result.error_code
        ]
        return min(errors, key=lambda error: error.retriable, default=None)

    def _may_retry(self, error: HeadraceError, metadata: GroupMetadata) -> bool:
        if isinstance(error, (*NOT_A_MEMBER, StaleMemberEpochError, FencedInstanceIdError)):
            standing = self._standing()
            if standing.owned is None:
                return False  # the group has members, and this is none
            if standing.metadata == metadata and not isinstance(error, StaleMemberEpochError):
                self._refused(error)  # and the next look at the standing says what that means
            return True
        if not isinstance(error, KafkaError):
            return False
        if error.retriable and not isinstance(error, CoordinatorLoadInProgressError):
            self._link.forget()
        return error.retriable or isinstance(error, RebalanceInProgressError)


def _is_kept(
    tp: TopicPartition, then: Mapping[TopicPartition, int] | None, now: Mapping[TopicPartition, int] | None
) -> bool:
    """Whether a partition was the member's all the time: if not, another may have read on meanwhile."""
    if then is None or now is None:
        return then is now
    return tp in now and then.get(tp) == now[tp]


def _settle(wish: _Wish, error: HeadraceError | None) -> None:
    if wish.done.done():
        return
    if error is None:
        wish.done.set_result(dict(wish.offsets))
    else:
        wish.done.set_exception(error)
        wish.done.exception()  # whoever does not look was not interested
