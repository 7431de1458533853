"""The topic of a benchmark: a temporary one that is deleted at the end, or one that was named."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from ...protocol.model import TopicPartition
from .vigil import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...clients.sync.admin_io import Admin

TEMPORARY_PREFIX = "headrace-bench-"
DEFAULT_PARTITIONS = 6
DELETE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """Which topic: None is a temporary one. `create` makes a named one that is missing, and keeps it."""

    name: str | None = None
    create: bool = False
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int | None = None


class BenchTopic:
    """A topic that is there, and how many records its log has taken."""

    def __init__(self, admin: Admin, name: str, partitions: int, *, is_temporary: bool) -> None:
        self._admin, self.name, self.partitions = admin, name, partitions
        self.is_temporary = is_temporary
        self.is_lost = False  # no node answered any more: nobody is asked about it

    def ends(self) -> int:
        """Sum of all end offsets. Errors: those of a partition that cannot be asked."""
        if self.is_lost:
            raise HeadraceError(GONE)
        from ...clients.admin.admin_types import LATEST

        return self._sum(LATEST)

    def beginnings(self) -> int:
        """Sum of all first offsets."""
        from ...clients.admin.admin_types import EARLIEST

        return self._sum(EARLIEST)

    def _sum(self, which: Any) -> int:
        places = [TopicPartition(self.name, number) for number in range(self.partitions)]
        found = self._admin.list_offsets(dict.fromkeys(places, which))
        return sum(found[place].offset for place in places)


@contextlib.contextmanager
def bench_topic(
    bootstrap: str | None, config: Mapping[str, str], plan: TopicPlan, note: Callable[[str], None]
) -> Iterator[BenchTopic]:
    """The topic, ready for use. A temporary one is deleted whatever happens; one that was there never is.

    Errors: UnknownTopicOrPartitionError for a named topic that is missing; those of its creation.
    """
    from ...clients.admin.admin_types import NewTopic
    from ...clients.sync.cluster_io import connect

    with connect(bootstrap, config=config) as cluster:
        admin = cluster.admin()
        if plan.name is not None:
            if plan.create:
                _create_missing(admin, NewTopic(plan.name, plan.partitions, plan.replication_factor))
            found = _found(admin, plan.name, is_temporary=False)
            if plan.create and found.partitions != plan.partitions:
                note(f"topic {plan.name!r} was there, with {found.partitions} partitions")
            yield found
            return
        admin.describe_cluster()  # nobody there: nothing was made, nothing is to be deleted
        name = TEMPORARY_PREFIX + secrets.token_hex(4)
        made: BenchTopic | None = None
        try:
            # inside the try: it may have been made although the answer was lost
            admin.create_topics(NewTopic(name, plan.partitions, plan.replication_factor)).raise_for_errors()
            made = _found(admin, name, is_temporary=True)
            yield made
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            if made is not None and made.is_lost:
                note(
                    f"the temporary topic {name!r} is still there: {GONE}; `headrace topic delete` removes it"
                )
            else:
                _delete(admin, name, note)


def _create_missing(admin: Admin, topic: Any) -> None:
    error = admin.create_topics(topic).errors.get(topic.name)
    if error is not None and not isinstance(error, TopicAlreadyExistsError):
        raise error


def _found(admin: Admin, name: str, *, is_temporary: bool) -> BenchTopic:
    found = admin.describe_topics(name)[name]
    return BenchTopic(admin, name, len(found.partitions), is_temporary=is_temporary)


def _delete(admin: Admin, name: str, note: Callable[[str], None]) -> None:
    try:
        error = admin.delete_topics(name, timeout=DELETE_TIMEOUT_S).errors.get(name)
    except HeadraceError as trouble:
        error = trouble
    if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
        note(f"the temporary topic {name!r} could not be deleted ({error}): delete it with `headrace topic`")
