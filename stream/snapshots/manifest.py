"""A snapshot of a task's stores: its manifest, the files that this names, and which ones to keep. Pure.

Layout: `<task>/manifests/<time>-<position>-<writer>.json` and `<task>/files/<writer>/<sha256>`. A writer is
one opening of a task in one process: writers never write the same object. The manifest is written last, so
each manifest that can be read has all of its files, unless something else has deleted or damaged them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StreamsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..records import TaskId

VERSION = 1
GRACE_MS = 24 * 3_600_000  # files of a manifest that is not written yet, by a writer that still may write it


class SnapshotError(StreamsError):
    """A snapshot cannot be read or written; the changelog has its records."""


class StoredFile(NamedTuple):
    """A file of a store: its path below the folder of the task, its object, size in bytes, and SHA-256."""

    path: str
    object: str
    size: int
    sha256: str


class Manifest(NamedTuple):
    """`created_ms`: wall clock; `topic_ids` of the changelogs; `offsets`: the next one by store."""

    task: str
    writer: str
    created_ms: int
    topic_ids: Mapping[str, str]
    offsets: Mapping[str, int]
    files: tuple[StoredFile, ...]

    @property
    def name(self) -> str:
        """Of its object; in the order of time."""
        position = sum(self.offsets.values())
        return f"{manifests_of(self.task)}{self.created_ms:015d}-{position:020d}-{self.writer}.json"

    def encode(self) -> bytes:
        """JSON, with a checksum of its body."""
        body = json.dumps({**self._asdict(), "version": VERSION}, sort_keys=True)
        return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}).encode()

    def check_fits(self, task: str, topic_ids: Mapping[str, str]) -> None:
        """Errors: SnapshotError if it is of another task, or of changelogs that were deleted since."""
        if self.task != task:
            raise SnapshotError(f"it is of task {self.task}")
        if dict(self.topic_ids) != dict(topic_ids):
            raise SnapshotError("it is of other changelog topics")


def decode(data: bytes) -> Manifest:
    """Errors: SnapshotError if it is damaged, or of a later version."""
    try:
        outer: Any = json.loads(data)
        body: str = outer["body"]
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            raise SnapshotError("its manifest has a wrong checksum")
        fields: Any = json.loads(body)
        version = fields.pop("version")
        if version != VERSION:
            raise SnapshotError(f"its manifest has version {version}, not {VERSION}")
        files = tuple(StoredFile(*each) for each in fields.pop("files"))
        return Manifest(**fields, files=files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"its manifest is damaged: {error}") from error


def manifests_of(task: TaskId | str) -> str:
    """The prefix of the names of all manifests of a task."""
    return f"{task}/manifests/"


def file_object(task: TaskId | str, writer: str, sha256: str) -> str:
    """The object of a file."""
    return f"{task}/files/{writer}/{sha256}"


def newest_first(names: Iterable[str]) -> list[str]:
    """The names of manifests."""
    return sorted((name for name in names if name.endswith(".json")), reverse=True)


def manifests_to_delete(names: Iterable[str], kept: int) -> list[str]:
    """All but the newest ones."""
    return newest_first(names)[kept:]


def files_to_delete(ages_ms: Mapping[str, int], kept: Sequence[Manifest], writer: str) -> list[str]:
    """The files that no kept manifest names; of other writers only old ones, because their manifest may not
    be written yet. `ages_ms` by object."""
    named = {each.object for manifest in kept for each in manifest.files}
    return sorted(
        name
        for name, age_ms in ages_ms.items()
        if name not in named and (name.split("/")[-2] == writer or age_ms > GRACE_MS)
    )
