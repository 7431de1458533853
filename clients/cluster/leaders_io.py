"""Requests about partitions that only their leaders handle, with retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...protocol.errors import (
    ApiTimeoutError,
    HeadraceError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from .silence import ExpectedLeader
from .tasks_io import owned_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.model import TopicPartition
    from .backoff import Backoff
    from .hub_io import Hub

V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LeaderQuery(Generic[V, R]):
    """How to make a request from partitions, and results from its response.

    `entry` makes the part of one partition from topic id, partition, argument and leader epoch; `body` the
    request from these parts and its timeout in ms. `answers` gives the parts of the response in the same
    order; `found` the result of a part without an error. `failure` is the text of a timeout.
    """

    api: Api
    entry: Callable[[bytes, int, V, int], Any]
    body: Callable[[tuple[Any, ...], int], Any]
    found: Callable[[Any], R]
    failure: str
    answers: Callable[[Any], Sequence[Any]] = attrgetter("partitions")


async def query_leaders(
    hub: Hub,
    question: LeaderQuery[V, R],
    wanted: Mapping[TopicPartition, V],
    *,
    deadline_ms: int,
    request_timeout_ms: int,
    backoff: Backoff,
) -> dict[TopicPartition, R | HeadraceError]:
    """For each partition the result, or the error. Retriable errors are retried until the deadline;
    partitions without a result have ApiTimeoutError then."""
    topics = sorted({tp.topic for tp in wanted})
    hub.metadata.watch(topics)
    try:
        return await _LeaderRequests(hub, question, wanted, deadline_ms, request_timeout_ms, backoff).run()
    finally:
        hub.metadata.unwatch(topics)


class _LeaderRequests(Generic[V, R]):
    def __init__(
        self,
        hub: Hub,
        question: LeaderQuery[V, R],
        wanted: Mapping[TopicPartition, V],
        deadline_ms: int,
        request_timeout_ms: int,
        backoff: Backoff,
    ) -> None:
        self._hub, self._question, self._wanted, self._deadline_ms = hub, question, wanted, deadline_ms
        self._request_timeout_ms, self._backoff = request_timeout_ms, backoff
        self._left = dict(wanted)
        self._found: dict[TopicPartition, R | HeadraceError] = {}
        self._last: dict[TopicPartition, KafkaError] = {}

    async def run(self) -> dict[TopicPartition, R | HeadraceError]:
        await self._check_topics()
        failures = 0
        while self._left:
            asked = [owned_task(self._ask(*group)) for group in self._groups().items()]
            await asyncio.gather(*asked)
            if not self._left:
                break
            failures += 1
            wait_ms = self._backoff.wait_ms(failures)
            if self._hub.now_ms() + wait_ms >= self._deadline_ms:
                self._give_up()
                break
            self._hub.metadata.refresh_soon()
            await asyncio.sleep(wait_ms / 1000)
        return {tp: self._found[tp] for tp in self._wanted}

    async def _check_topics(self) -> None:
        """Fail partitions that do not exist."""
        most: dict[str, int] = {}
        for tp in self._wanted:
            most[tp.topic] = max(most.get(tp.topic, 0), tp.partition + 1)
        for topic, count in most.items():
            try:
                view = await self._hub.metadata.topic(topic, self._deadline_ms, min_partitions=count)
                known = len(view.partitions)
            except KafkaError as error:
                view_now = self._hub.metadata.view.topics.get(topic)
                known = len(view_now.partitions) if view_now is not None else 0
                self._refuse(topic, known, error)
            except ApiTimeoutError as error:
                self._refuse(topic, 0, error)
            else:
                self._refuse(topic, known, UnknownTopicOrPartitionError(f"a partition of {topic!r} below 0"))

    def _refuse(self, topic: str, known: int, error: HeadraceError) -> None:
        for tp in [tp for tp in self._left if tp.topic == topic and not 0 <= tp.partition < known]:
            self._found[tp] = error
            del self._left[tp]

    def _groups(self) -> dict[int, list[tuple[TopicPartition, ExpectedLeader]]]:
        """The partitions without a result, by leader."""
        view = self._hub.metadata.view
        groups: dict[int, list[tuple[TopicPartition, ExpectedLeader]]] = {}
        for tp in self._left:
            leader = view.leader_of(tp.topic, tp.partition)
            if leader is None:
                self._last[tp] = LeaderNotAvailableError(f"{tp} has no leader now")
                continue
            topic_id, node_id, epoch = leader
            groups.setdefault(node_id, []).append(
                (tp, ExpectedLeader(tp.topic, topic_id, tp.partition, epoch))
            )
        return groups

    async def _ask(self, node_id: int, group: list[tuple[TopicPartition, ExpectedLeader]]) -> None:
        timeout_ms = min(self._request_timeout_ms, max(self._deadline_ms - self._hub.now_ms(), 1))
        leaders = [stake for _, stake in group]
        entries = tuple(
            self._question.entry(stake.topic_id, tp.partition, self._left[tp], stake.leader_epoch)
            for tp, stake in group
        )
        body = self._question.body(entries, timeout_ms)
        try:
            response = await self._hub.request(
                *(node_id, self._question.api, body),
                timeout_ms=timeout_ms,
                leaders=lambda: leaders,
            )
        except KafkaError as error:
            for tp, _ in group:
                self._settle(tp, error)
            return
        for (tp, _), answer in zip(group, self._question.answers(response), strict=False):
            if answer.error_code:
                detail = getattr(answer, "error_detail", "")
                self._settle(tp, error_from_code(answer.error_code, detail))
            else:
                self._found[tp] = self._question.found(answer)
                del self._left[tp]

    def _settle(self, tp: TopicPartition, error: KafkaError) -> None:
        if error.retriable:
            self._last[tp] = error
        else:
            self._found[tp] = error
            del self._left[tp]

    def _give_up(self) -> None:
        for tp in self._left:
            cause = self._last.get(tp)
            error = ApiTimeoutError(f"{tp}: {self._question.failure}" + (f": {cause}" if cause else ""))
            error.__cause__ = cause
            self._found[tp] = error
