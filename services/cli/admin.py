"""Shared parts of admin commands: the admin client, and the report of partial failures."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .common import PartialFailureError, Settings
from .output import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition


@contextmanager
def open_admin(settings: Settings, config: Mapping[str, str]) -> Iterator[Admin]:
    """An admin client of the selected cluster."""
    from ...clients.sync.admin_io import Admin

    with Admin(settings.addresses(), config=config) as admin:
        yield admin


def raise_first(errors: Mapping[str, BaseException], total: int, what: str = "topics") -> None:
    """Returns if `errors` is empty. If everything failed with one error, raises that; else prints each error
    and raises PartialFailureError."""
    if not errors:
        return
    name, error = next(iter(errors.items()))
    if len(errors) == total:
        for other, trouble in list(errors.items())[1:]:
            note(f"headrace: {other}: {trouble}")
        raise error
    for other, trouble in errors.items():
        note(f"headrace: {other}: {trouble}")
    raise PartialFailureError(f"{len(errors)} of {total} {what} failed, first {name!r}")


def places_of(admin: Admin, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """The given partitions of a topic, or all of them. Errors: UnknownTopicOrPartitionError."""
    from ...protocol.model import TopicPartition

    found = list(dict.fromkeys(numbers)) or [
        part.partition for part in admin.describe_topics(topic)[topic].partitions
    ]
    return [TopicPartition(topic, number) for number in found]
