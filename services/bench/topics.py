"""The topic of a benchmark: a temporary one that is deleted at the end, or an existing one."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from ...protocol.model import TopicPartition
from .watchdog import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...clients.sync.admin_io import Admin

TEMPORARY_PREFIX = "headrace-bench-"
DEFAULT_PARTITIONS = 6
DELETE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """Name None: a temporary topic. `create`: create a missing named topic, and keep it."""

    name: str | None = None
    create: bool = False
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int | None = None


class BenchTopic:
    """An existing topic, and the size of its log in records."""

    def __init__(self, admin: Admin, name: str, partitions: int, *, is_temporary: bool) -> None:
        self._admin, self.name, self.partitions = admin, name, partitions
        self.is_temporary = is_temporary
        self.is_lost = False  # all nodes stopped answering: send no more requests

    def ends(self) -> int:
        """The sum of all log end offsets. Errors: those of a partition that does not answer."""
        if self.is_lost:
            raise HeadraceError(GONE)
        from ...clients.admin.admin_types import LATEST

        return self._sum(LATEST)

    def beginnings(self) -> int:
        """The sum of all log start offsets."""
        from ...clients.admin.admin_types import EARLIEST

        return self._sum(EARLIEST)

    def _sum(self, which: Any) -> int:
        partitions = [TopicPartition(self.name, number) for number in range(self.partitions)]
        found = self._admin.list_offsets(dict.fromkeys(partitions, which))
        return sum(found[partition].offset for partition in partitions)


@contextlib.contextmanager
def bench_topic(
    bootstrap: str | None, config: Mapping[str, str], plan: TopicPlan, note: Callable[[str], None]
) -> Iterator[BenchTopic]:
    """The topic, ready for use. A temporary topic is always deleted, an existing one never.

    Errors: UnknownTopicOrPartitionError for a missing named topic; those of its creation.
    """
    from ...clients.admin.admin_types import NewTopic
    from ...clients.sync.cluster_io import connect

    with connect(bootstrap, config=config) as cluster:
        admin = cluster.admin()
        if plan.name is not None:
            if plan.create:
                _create_missing(admin, NewTopic(plan.name, plan.partitions, plan.replication_factor))
            found = _describe(admin, plan.name, is_temporary=False)
            if plan.create and found.partitions != plan.partitions:
                note(f"topic {plan.name!r} exists, with {found.partitions} partitions")
            yield found
            return
        admin.describe_cluster()  # if no node answers, the topic was not created and need not be deleted
        name = TEMPORARY_PREFIX + secrets.token_hex(4)
        created: BenchTopic | None = None
        try:
            # inside the try: it may have been created although the response was lost
            admin.create_topics(NewTopic(name, plan.partitions, plan.replication_factor)).raise_for_errors()
            created = _describe(admin, name, is_temporary=True)
            yield created
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            if created is not None and created.is_lost:
                note(
                    f"the temporary topic {name!r} was not deleted: {GONE}; `headrace topic delete {name}`"
                    " deletes it"
                )
            else:
                _delete(admin, name, note)


def _create_missing(admin: Admin, topic: Any) -> None:
    error = admin.create_topics(topic).errors.get(topic.name)
    if error is not None and not isinstance(error, TopicAlreadyExistsError):
        raise error


def _describe(admin: Admin, name: str, *, is_temporary: bool) -> BenchTopic:
    found = admin.describe_topics(name)[name]
    return BenchTopic(admin, name, len(found.partitions), is_temporary=is_temporary)


def _delete(admin: Admin, name: str, note: Callable[[str], None]) -> None:
    try:
        error = admin.delete_topics(name, timeout=DELETE_TIMEOUT_S).errors.get(name)
    except HeadraceError as failure:
        error = failure
    if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
        note(
            f"the temporary topic {name!r} was not deleted ({error}): `headrace topic delete {name}` deletes"
            " it"
        )
