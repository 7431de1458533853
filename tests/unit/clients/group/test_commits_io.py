"""Commits: one request at a time, in order, under the generation that holds, and never for what was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import virtual_loop
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.group.commits_io import Committer, Standing
from headrace.clients.group.figures import GroupFigures
from headrace.clients.group.group_metadata import GroupMetadata, OffsetAndMetadata
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
    """A committer between a member and a coordinator that answers as it is told."""

    def __init__(self) -> None:
        self.loop: Any = asyncio.get_running_loop()
        self.tasks = Tasks()
        self.standing = Standing(GroupMetadata("g", 1, "me"), True, {T0: 1, T1: 1})
        self.answers: list[Any] = []  # error codes, exceptions or futures, in the order of requests
        self.requests: list[groups.OffsetCommitRequest] = []
        self.refusals: list[Any] = []
        self.forgotten = 0
        backoff = Backoff(10, 10, _Middle())
        self.figures = GroupFigures()
        self.committer = Committer(
            *(self, self, backoff, lambda: self.standing, self._refused, self.figures)  # type: ignore[arg-type]
        )

    def now_ms(self) -> int:
        return round(self.loop.time() * 1000)

    def forget(self) -> None:
        self.forgotten += 1

    def _refused(self, error: Any) -> None:
        self.refusals.append(error)
        self.standing = self.standing._replace(owned={})

    async def ask(self, _api: Any, request: Any, *, deadline_ms: int) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        results = tuple(
            groups.PartitionResult(each.topic, each.partition, answer) for each in request.offsets
        )
        return groups.OffsetCommitResponse(results)

    def commit(self, *offsets: tuple[TopicPartition, int], timeout_ms: int = 10_000) -> asyncio.Future[Any]:
        wanted = {tp: OffsetAndMetadata(offset) for tp, offset in offsets}
        return self.committer.submit(wanted, self.now_ms() + timeout_ms)

    def move(self, **facts: Any) -> None:
        self.standing = self.standing._replace(**facts)
        self.committer.standing_changed()

    def sent(self) -> list[list[tuple[int, int]]]:
        return [[(each.partition, each.offset) for each in request.offsets] for request in self.requests]


class _Middle:
    def uniform(self, _low: float, _high: float) -> float:
        return 1.0


def play(scenario: Any) -> None:
    async def everything() -> None:
        rig = Rig()
        await scenario(rig)
        await asyncio.gather(*rig.tasks.running)

    virtual_loop.run(everything())


def test_what_comes_while_one_is_under_way_is_merged() -> None:
    """The later offset counts; all are told what they asked for."""

    async def scenario(rig: Rig) -> None:
        gate = rig.loop.create_future()
        rig.answers = [gate]
        first = rig.commit((T0, 1))
        await asyncio.sleep(0.001)
        rest = [rig.commit((T0, 2)), rig.commit((T0, 3), (T1, 5)), rig.commit((T0, 4))]
        gate.set_result(0)
        assert await first == {T0: OffsetAndMetadata(1)}
        assert [each[T0].offset for each in await asyncio.gather(*rest)] == [2, 3, 4]
        assert rig.sent() == [[(0, 1)], [(0, 4), (1, 5)]]

    play(scenario)


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
def test_what_may_help_is_tried_again_before_anything_newer(failure: Any) -> None:
    """An older offset never comes after a newer one."""

    async def scenario(rig: Rig) -> None:
        rig.answers = [failure, failure]
        futures = [rig.commit((T0, 1))]
        await asyncio.sleep(0.001)
        futures.append(rig.commit((T0, 2)))
        await asyncio.gather(*futures)
        assert rig.sent() == [[(0, 1)]] * 3 + [[(0, 2)]]
        is_lost = isinstance(failure, Exception) or failure == errors.NotCoordinatorError.code
        assert rig.forgotten == 2 * is_lost

    play(scenario)


def test_time_is_over_with_the_reason() -> None:
    """The coordinator never answers well."""

    async def scenario(rig: Rig) -> None:
        rig.answers = [errors.CoordinatorLoadInProgressError.code] * 1000
        with pytest.raises(errors.ApiTimeoutError, match="not committed in time") as found:
            await rig.commit((T0, 1), timeout_ms=100)
        assert isinstance(found.value.__cause__, errors.CoordinatorLoadInProgressError)

    play(scenario)


@pytest.mark.parametrize(
    "error", [errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.FencedMemberEpochError]
)
def test_a_member_that_the_group_does_not_know_has_lost_its_partitions(error: Any) -> None:
    """It hears of it here first, and the commit fails."""

    async def scenario(rig: Rig) -> None:
        rig.answers = [error.code]
        with pytest.raises(errors.CommitFailedError, match="t-0"):
            await rig.commit((T0, 1))
        assert [type(each) for each in rig.refusals] == [error]
        assert len(rig.requests) == 1

    play(scenario)


def test_a_commit_of_an_older_generation_is_sent_under_the_new_one() -> None:
    """The member moved on while it was under way, and kept the partition."""

    async def scenario(rig: Rig) -> None:
        gate = rig.loop.create_future()
        rig.answers = [gate]
        future = rig.commit((T0, 1))
        await asyncio.sleep(0.001)
        rig.move(metadata=GroupMetadata("g", 2, "me"))
        gate.set_result(errors.IllegalGenerationError.code)
        await future
        assert [each.generation_id_or_member_epoch for each in rig.requests] == [1, 2]
        assert rig.refusals == []

    play(scenario)


def test_commits_wait_between_two_generations() -> None:
    """And fail if the partition is not the member's afterwards, or was another's meanwhile."""

    async def scenario(rig: Rig) -> None:
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

    play(scenario)


def test_being_fenced_is_told_as_such() -> None:
    """To those that wait and to those that come later."""

    async def scenario(rig: Rig) -> None:
        rig.move(error=errors.FencedInstanceIdError("taken"))
        with pytest.raises(errors.FencedInstanceIdError):
            await rig.commit((T0, 1))

    play(scenario)


def test_the_worst_answer_of_several_partitions_counts() -> None:
    """One that no retry helps."""

    async def scenario(rig: Rig) -> None:
        rig.answers = [errors.OffsetMetadataTooLargeError.code]
        with pytest.raises(errors.OffsetMetadataTooLargeError, match="t-0"):
            await rig.commit((T0, 1))

    play(scenario)


def test_without_a_membership_the_group_must_be_empty() -> None:
    """Partitions by hand: what the coordinator says is told."""

    async def scenario(rig: Rig) -> None:
        rig.move(owned=None, metadata=GroupMetadata("g"))
        await rig.commit((TopicPartition("any", 7), 1))
        rig.answers = [errors.UnknownMemberIdError.code]
        with pytest.raises(errors.UnknownMemberIdError):
            await rig.commit((T0, 1))

    play(scenario)


def test_the_end_fails_what_waits() -> None:
    """And what comes later."""

    async def scenario(rig: Rig) -> None:
        rig.move(may_commit=False)
        waiting = rig.commit((T0, 1))
        await asyncio.sleep(0.001)
        rig.committer.close()
        for future in (waiting, rig.commit((T0, 1))):
            with pytest.raises(errors.ClosedError):
                await future

    play(scenario)
