"""The interceptors of a consumer. Pure. Source: KIP-42."""

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
        """Deserialized records of one partition, in order, that are about to be returned. Gives the records
        to return, None for all; `record.replace` makes a record to return at the same offset. Called in the
        thread or task that reads."""


class OnCommit(Protocol):
    """An interceptor with `on_commit`."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Any:
        """These offsets were committed, by `commit` or auto-commit, not by a transaction. Called on the IO
        thread (asyncio: on the event loop); must not block."""


class ConsumerInterceptor(OnConsume, OnCommit, Protocol):
    """Sees every record of a consumer, and its commits. Its exceptions are logged and ignored. Each method
    may be left out: see `SomeConsumerInterceptor`."""


# What `interceptors=` takes: objects with at least one of the methods.
SomeConsumerInterceptor: TypeAlias = OnConsume | OnCommit


class Interceptors:
    """The interceptors of one consumer, called in order."""

    def __init__(self, interceptors: Iterable[SomeConsumerInterceptor] = ()) -> None:
        self._on_consume, self._on_commit = hooks_of(interceptors, "on_consume", "on_commit")

    @property
    def see_records(self) -> bool:
        """Whether an interceptor has `on_consume`."""
        return bool(self._on_consume)

    def consumed(self, records: list[Any]) -> list[Any]:
        """The records to return."""
        for on_consume in self._on_consume:
            if not records:
                return records
            answer = call_user(on_consume, list(records))
            try:
                records = records if answer is None else _chosen(answer, records)
            except Exception:  # the answer may be a generator of the application, or anything else
                log.exception(
                    "%r returned other records than its own; the client continues with all", on_consume
                )
        return records

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call `on_commit` of every interceptor."""
        for on_commit in self._on_commit if offsets else ():
            call_user(on_commit, dict(offsets))


def _chosen(answer: Any, records: list[Any]) -> list[Any]:
    """The answer as a list. Errors: ValueError unless its offsets are some of the records', in order:
    positions follow from them."""
    chosen = list(answer)
    offsets = [record.offset for record in chosen]
    known = {record.offset for record in records}
    if not known.issuperset(offsets) or any(one >= other for one, other in pairwise(offsets)):
        raise ValueError("on_consume must return some of its records, in order")
    return chosen
