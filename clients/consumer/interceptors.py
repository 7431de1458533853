"""What the user's interceptors see of a consumer. Pure. Source: KIP-42."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..user_code import call_user, hooks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.model import TopicPartition
    from ..group.group_metadata import OffsetAndMetadata
    from ..records import Record

log = logging.getLogger("headrace.client")


class OnConsume(Protocol):
    """An interceptor with `on_consume`."""

    def on_consume(self, records: list[Record[Any, Any]]) -> Iterable[Record[Any, Any]] | None:
        """Records of one partition, in their order, that are handed out next: the ones to hand out of them,
        None for all. `record.replace` makes others to hand out in their place, at the same offsets. Called
        where the user reads, behind the deserialisers."""


class OnCommit(Protocol):
    """An interceptor with `on_commit`."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Any:
        """These were committed, by the user or by auto-commit, not by a transaction. Called on the IO thread
        (asyncio: on the loop); must not block."""


class ConsumerInterceptor(OnConsume, OnCommit, Protocol):
    """Sees every record of a consumer, and its commits. What it raises is logged, and the consumer goes on.
    Each method may be left out: see `SomeConsumerInterceptor`."""


# What `interceptors=` takes: objects with at least one of the methods.
SomeConsumerInterceptor: TypeAlias = OnConsume | OnCommit


class Interceptors:
    """Those of one consumer, in their order."""

    def __init__(self, interceptors: Iterable[SomeConsumerInterceptor] = ()) -> None:
        self._on_consume, self._on_commit = hooks_of(interceptors, "on_consume", "on_commit")

    @property
    def see_records(self) -> bool:
        """Whether one of them wants to."""
        return bool(self._on_consume)

    def consumed(self, records: list[Any]) -> list[Any]:
        """The records to hand out instead, in the same order."""
        for on_consume in self._on_consume:
            if not records:
                return records
            answer = call_user(on_consume, list(records))
            try:
                records = records if answer is None else _chosen(answer, records)
            except Exception:  # the answer may be the user's generator, or anything else
                log.exception("%r gave what cannot be handed out; the client goes on with all", on_consume)
        return records

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all of them."""
        for on_commit in self._on_commit if offsets else ():
            call_user(on_commit, dict(offsets))


def _chosen(answer: Any, records: list[Any]) -> list[Any]:
    """The answer as a list. Errors: ValueError unless it is of the same offsets, which tell positions."""
    chosen = list(answer)
    offsets = [record.offset for record in chosen]
    known = {record.offset for record in records}
    if not known.issuperset(offsets) or any(one >= other for one, other in pairwise(offsets)):
        raise ValueError("on_consume gives records that it got, in their order")
    return chosen
