"""Offset commits: one request at a time, in order, in the current generation, of owned partitions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.commits_io import CommitContext, Committer
from headrace.clients.group.group_metadata import GroupMetadata, OffsetAndMetadata
from headrace.clients.group.metrics import GroupMetrics
from headrace.clients.operation_times import OperationTimes
from headrace.protocol import errors
from headrace.protocol.messages import groups
from headrace.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Tasks:
    """Keeps tasks alive."""

    def __init__(self) -> None:
        self.running: list[asyncio.Task[Any]] = []

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self.running.append(task)
        return task


class Rig:
    """A committer between a member and a coordinator with prepared responses."""

    def __init__(self) -> None:
        self.loop: Any = asyncio.get_running_loop()
        self.tasks = Tasks()
        self.standing = CommitContext(GroupMetadata("g", 1, "me"), True, {T0: 1, T1: 1})
        self.answers: list[Any] = []  # error codes, exceptions or futures, in the order of requests
        self.requests: list[groups.OffsetCommitRequest] = []
        self.refusals: list[Any] = []
        self.forgotten = 0
        backoff = Backoff(10, 10, _Middle())
        self.metrics, self.operations = GroupMetrics(), OperationTimes()
        self.committer = Committer(
            *(self, self, backoff, lambda: self.standing, self._request_failed, self.metrics),  # type: ignore[arg-type]
            self.operations,
        )

    def now_ms(self) -> int:
        return round(self.loop.time() * 1000)

    def forget(self) -> None:
        self.forgotten += 1

    def _request_failed(self, error: Any) -> None:
        self.refusals.append(error)
        self.standing = self.standing._replace(owned={})

    async def ask(self, _api: Any, request: Any, *, deadline_ms: int) -> Any:
        self.requests.append(request)
        response = self.answers.pop(0) if self.answers else 0
        if isinstance(response, asyncio.Future):
            response = await response
        if isinstance(response, Exception):
            raise response
        results = tuple(
            groups.PartitionResult(each.topic, each.partition, response) for each in request.offsets
        )
        return groups.OffsetCommitResponse(results)

    def commit(self, *offsets: tuple[TopicPartition, int], timeout_ms: int = 10_000) -> asyncio.Future[Any]:
        wanted = {tp: OffsetAndMetadata(offset) for tp, offset in offsets}
        return self.committer.submit(wanted, self.now_ms() + timeout_ms)

    def move(self, **facts: Any) -> None:
        self.standing = self.standing._replace(**facts)
        self.committer.membership_changed()

    def sent(self) -> list[list[tuple[int, int]]]:
        return [[(each.partition, each.offset) for each in request.offsets] for request in self.requests]


class _Middle:
    def uniform(self, _low: float, _high: float) -> float:
        return 1.0


@pytest.fixture
@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await asyncio.gather(*rig.tasks.running)


async def test_commits_during_a_request_are_merged(rig: Rig) -> None:
    """The later offset counts; each caller gets its own offsets."""
    gate = rig.loop.create_future()
    rig.answers = [gate]
    first = rig.commit((T0, 1))
    await asyncio.sleep(0.001)
    rest = [rig.commit((T0, 2)), rig.commit((T0, 3), (T1, 5)), rig.commit((T0, 4))]
    gate.set_result(0)
    assert await first == {T0: OffsetAndMetadata(1)}
    assert [each[T0].offset for each in await asyncio.gather(*rest)] == [2, 3, 4]
    assert rig.sent() == [[(0, 1)], [(0, 4), (1, 5)]]


@pytest.mark.parametrize(
    "failure",
    [
        errors.NetworkError(),
        errors.NotCoordinatorError.code,
        errors.CoordinatorLoadInProgressError.code,
        errors.RebalanceInProgressError.code,
        errors.StaleMemberEpochError.code,
    ],
)
async def test_retries_come_before_newer_commits(rig: Rig, failure: Any) -> None:
    """An older offset never follows a newer one."""
    rig.answers = [failure, failure]
    futures = [rig.commit((T0, 1))]
    await asyncio.sleep(0.001)
    futures.append(rig.commit((T0, 2)))
    await asyncio.gather(*futures)
    assert rig.sent() == [[(0, 1)]] * 3 + [[(0, 2)]]
    is_lost = isinstance(failure, Exception) or failure == errors.NotCoordinatorError.code
    assert rig.forgotten == 2 * is_lost


async def test_timeout_names_the_last_error(rig: Rig) -> None:
    """The coordinator keeps returning retriable errors."""
    rig.answers = [errors.CoordinatorLoadInProgressError.code] * 1000
    with pytest.raises(errors.ApiTimeoutError, match="not committed in time") as found:
        await rig.commit((T0, 1), timeout_ms=100)
    assert isinstance(found.value.__cause__, errors.CoordinatorLoadInProgressError)


@pytest.mark.parametrize(
    "error", [errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.FencedMemberEpochError]
)
async def test_unknown_member_fails_the_commit_and_loses_its_partitions(rig: Rig, error: Any) -> None:
    """The commit is the first request that the coordinator rejects."""
    rig.answers = [error.code]
    with pytest.raises(errors.CommitFailedError, match="t-0"):
        await rig.commit((T0, 1))
    assert [type(each) for each in rig.refusals] == [error]
    assert len(rig.requests) == 1


async def test_commit_is_retried_under_the_new_generation(rig: Rig) -> None:
    """The member joined the next generation during the request, and kept the partition."""
    gate = rig.loop.create_future()
    rig.answers = [gate]
    future = rig.commit((T0, 1))
    await asyncio.sleep(0.001)
    rig.move(metadata=GroupMetadata("g", 2, "me"))
    gate.set_result(errors.IllegalGenerationError.code)
    await future
    assert [each.generation_id_or_member_epoch for each in rig.requests] == [1, 2]
    assert rig.refusals == []


async def test_commits_wait_while_the_member_joins(rig: Rig) -> None:
    """They fail when the partition was assigned to another member, even if it came back."""
    rig.move(may_commit=False)
    kept, lost, again = rig.commit((T0, 1)), rig.commit((T1, 1)), rig.commit((T1, 2))
    await asyncio.sleep(1)
    assert rig.requests == []
    rig.move(may_commit=True, owned={T0: 1, T1: 2}, metadata=GroupMetadata("g", 2, "me"))
    await kept
    for future in (lost, again):
        with pytest.raises(errors.CommitFailedError):
            await future
    assert rig.sent() == [[(0, 1)]]


async def test_fencing_fails_waiting_and_later_commits(rig: Rig) -> None:
    """With FencedInstanceIdError."""
    rig.move(error=errors.FencedInstanceIdError("taken"))
    with pytest.raises(errors.FencedInstanceIdError):
        await rig.commit((T0, 1))


async def test_nonretriable_error_of_any_partition_counts(rig: Rig) -> None:
    """Also when other partitions have retriable errors."""
    rig.answers = [errors.OffsetMetadataTooLargeError.code]
    with pytest.raises(errors.OffsetMetadataTooLargeError, match="t-0"):
        await rig.commit((T0, 1))


async def test_commit_without_membership_raises_errors_of_the_coordinator(rig: Rig) -> None:
    """Partitions by `assign`: the coordinator rejects the commit when the group has members."""
    rig.move(owned=None, metadata=GroupMetadata("g"))
    await rig.commit((TopicPartition("any", 7), 1))
    rig.answers = [errors.UnknownMemberIdError.code]
    with pytest.raises(errors.UnknownMemberIdError):
        await rig.commit((T0, 1))


async def test_close_fails_waiting_and_later_commits(rig: Rig) -> None:
    """With ClosedError."""
    rig.move(may_commit=False)
    waiting = rig.commit((T0, 1))
    await asyncio.sleep(0.001)
    rig.committer.close()
    for future in (waiting, rig.commit((T0, 1))):
        with pytest.raises(errors.ClosedError):
            await future
