"""The offset commits of one consumer: one OffsetCommit request at a time, in the order of the calls.

Commits that are submitted while a request is in flight are merged into the next request; for each partition
the offset that was submitted last counts. So an older offset never overwrites a newer one, and many small
commits take few requests. A commit waits while the member joins or syncs. It is sent under the next
generation if its partitions are still assigned to the member, and fails with CommitFailedError otherwise.
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
    from ..operation_times import OperationTimes
    from .coordinator_io import CoordinatorLink
    from .group_metadata import GroupMetadata, OffsetAndMetadata
    from .metrics import GroupMetrics

NOT_A_MEMBER = (UnknownMemberIdError, IllegalGenerationError, FencedMemberEpochError)


class CommitContext(NamedTuple):
    """What a commit needs to know of the membership."""

    metadata: GroupMetadata
    may_commit: bool  # False: the member is between two generations
    # The assigned partitions, each with the count of its assignments; None: assigned by `assign`.
    owned: Mapping[TopicPartition, int] | None
    error: HeadraceError | None = None


class _PendingCommit(NamedTuple):
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline_ms: int
    done: asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]
    owned: Mapping[TopicPartition, int] | None  # at the time of `submit`


class Committer:
    """The commits of one consumer. Runs on its event loop. Calls `commit_rejected` when the coordinator does
    not know the member."""

    def __init__(
        self,
        hub: Hub,
        link: CoordinatorLink,
        backoff: Backoff,
        context: Callable[[], CommitContext],
        commit_rejected: Callable[[KafkaError], None],
        metrics: GroupMetrics,
        operations: OperationTimes,
    ) -> None:
        self._hub, self._link, self._backoff, self._metrics = hub, link, backoff, metrics
        self._operations = operations
        self._commit_context, self._request_failed = context, commit_rejected
        self._queue: list[_PendingCommit] = []
        self._is_running = False
        self._changed = asyncio.Event()
        self._closed: HeadraceError | None = None
        self._last: KafkaError | None = None  # the error after which the request in flight is a retry

    def membership_changed(self) -> None:
        """Wake commits that wait for a membership change."""
        self._changed.set()

    def submit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> asyncio.Future[dict[TopicPartition, OffsetAndMetadata]]:
        """Queue a commit of these offsets behind the earlier ones.

        Errors, in the future: CommitFailedError when a partition is no longer assigned to the member,
        FencedInstanceIdError, ApiTimeoutError at the deadline, also while an earlier commit is in flight,
        ClosedError, and any error of the coordinator that is not retriable. After ApiTimeoutError the offsets
        may still be committed.
        """
        done: asyncio.Future[dict[TopicPartition, OffsetAndMetadata]] = self._hub.loop.create_future()
        if self._closed is not None:
            done.set_exception(self._closed)
        else:
            commit = _PendingCommit(offsets, deadline_ms, done, self._commit_context().owned)
            self._queue.append(commit)
            left_s = max(deadline_ms - self._hub.now_ms(), 0) / 1000
            expiry = self._hub.loop.call_later(left_s, self._expire, commit)
            done.add_done_callback(lambda _: expiry.cancel())
            if not self._is_running and self._hub.tasks.spawn(self._run()) is not None:
                self._is_running = True
        return done

    def all_ended(self, deadline_ms: int) -> asyncio.Future[dict[TopicPartition, OffsetAndMetadata]] | None:
        """A future that is done when all earlier commits have ended; None if none is pending."""
        return self.submit({}, deadline_ms) if self._is_running else None

    def close(self) -> None:
        """Fail all commits that were not sent."""
        self._closed = ClosedError("the consumer was closed")
        self._changed.set()
        commits, self._queue = self._queue, []
        for commit in commits:
            _settle(commit, self._closed)

    def _expire(self, commit: _PendingCommit) -> None:
        last = self._last
        error = ApiTimeoutError("the offsets were not committed in time" + (f": {last}" if last else ""))
        error.__cause__ = last
        _settle(commit, error)

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._settled(max(commit.deadline_ms for commit in self._queue))
                commits, self._queue = self._queue, []
                await self._commit(commits)
        finally:
            self._is_running = False

    async def _settled(self, deadline_ms: int) -> None:
        """Wait until the member is not between two generations."""
        while not self._commit_context().may_commit and self._closed is None:
            self._changed.clear()
            left_ms = deadline_ms - self._hub.now_ms()
            if left_ms <= 0:
                return
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _commit(self, commits: list[_PendingCommit]) -> None:
        failures = 0
        self._last = None
        while True:
            commits = self._still_valid(commits)
            if not commits:
                return
            offsets = {tp: offset for commit in commits for tp, offset in commit.offsets.items()}
            metadata = self._commit_context().metadata
            error = await self._attempt(offsets, metadata, max(commit.deadline_ms for commit in commits))
            if error is None or not self._may_retry(error, metadata):
                for commit in commits:
                    _settle(commit, error)
                return
            self._last = error if isinstance(error, KafkaError) else self._last
            failures += 1
            self._changed.clear()
            left_ms = min(commit.deadline_ms for commit in commits) - self._hub.now_ms()
            wait_ms = min(self._backoff.wait_ms(failures), max(left_ms, 0))
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await self._settled(max(commit.deadline_ms for commit in commits))

    def _still_valid(self, commits: list[_PendingCommit]) -> list[_PendingCommit]:
        context, now_ms = self._commit_context(), self._hub.now_ms()
        valid: list[_PendingCommit] = []
        for commit in commits:
            gone = [tp for tp in commit.offsets if not _is_kept(tp, commit.owned, context.owned)]
            if self._closed is not None or context.error is not None:
                _settle(commit, self._closed or context.error)
            elif gone:
                _settle(commit, CommitFailedError(f"{gone[0]} is not assigned to this member (any more)"))
            elif not context.may_commit or commit.deadline_ms <= now_ms:
                self._expire(commit)
            elif not commit.done.done():
                valid.append(commit)
        return valid

    async def _attempt(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], metadata: GroupMetadata, deadline_ms: int
    ) -> HeadraceError | None:
        """Send one request. Returns the error of any partition, a non-retriable one first."""
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
            response = await self._link.ask(OFFSET_COMMIT, request, deadline_ms=deadline_ms)
        except HeadraceError as error:
            self._operations.committed(self._hub.now_ms() - began_ms, error)
            return error
        now_ms = self._hub.now_ms()
        self._metrics.response_received(OFFSET_COMMIT, began_ms, now_ms)
        errors = [
            error_from_code(result.error_code, f"{result.topic}-{result.partition}")
            for result in response.results
            if result.error_code
        ]
        first = min(errors, key=lambda error: error.retriable, default=None)
        self._operations.committed(now_ms - began_ms, first)
        return first

    def _may_retry(self, error: HeadraceError, metadata: GroupMetadata) -> bool:
        if isinstance(error, (*NOT_A_MEMBER, StaleMemberEpochError, FencedInstanceIdError)):
            context = self._commit_context()
            if context.owned is None:
                return False  # assigned by `assign`, and the group has members
            if context.metadata == metadata and not isinstance(error, StaleMemberEpochError):
                self._request_failed(error)  # the next Standing has the result
            return True
        if not isinstance(error, KafkaError):
            return False
        if error.retriable and not isinstance(error, CoordinatorLoadInProgressError):
            self._link.forget()
        return error.retriable or isinstance(error, RebalanceInProgressError)


def _is_kept(
    tp: TopicPartition, then: Mapping[TopicPartition, int] | None, now: Mapping[TopicPartition, int] | None
) -> bool:
    """Whether the partition stayed assigned to the member. If not, another member may have read and committed
    further meanwhile."""
    if then is None or now is None:
        return then is now
    return tp in now and then.get(tp) == now[tp]


def _settle(commit: _PendingCommit, error: HeadraceError | None) -> None:
    if commit.done.done():
        return
    if error is None:
        commit.done.set_result(dict(commit.offsets))
    else:
        commit.done.set_exception(error)
        commit.done.exception()  # marks it as retrieved: the caller may ignore the future
