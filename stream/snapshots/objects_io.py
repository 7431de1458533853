"""Where snapshots are stored: a folder, or an object store through obstore."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ConfigError
from .manifest import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.records.header import Buffer


CHUNK_BYTES = 1 << 18


class Objects(Protocol):
    """Objects by name, with slashes. Errors of all: SnapshotError."""

    def put(self, name: str, source: bytes | Path) -> None:
        """Write an object, all or nothing."""

    def get(self, name: str) -> bytes: ...

    def fetch(self, name: str, target: Path) -> str:
        """Write the object to a file; returns its SHA-256 in hexadecimal digits."""

    def ages_ms(self, prefix: str) -> dict[str, int]:
        """The objects whose names begin with `prefix`, which ends with a slash, and their ages."""

    def delete(self, names: Iterable[str]) -> None:
        """Objects that are missing are left out."""


class FolderObjects:
    """Files below a folder, which machines may share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, source: bytes | Path) -> None:
        path = self._folder / name
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as file:
                    file.write(source if isinstance(source, bytes) else source.read_bytes())
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise SnapshotError(f"cannot write {path}: {error.strerror}") from error

    def get(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise SnapshotError(f"cannot read {self._folder / name}: {error.strerror}") from error

    def fetch(self, name: str, target: Path) -> str:
        path = self._folder / name
        try:
            with path.open("rb", buffering=0) as file:
                return _written(iter(lambda: file.read(CHUNK_BYTES), b""), target)
        except OSError as error:
            raise SnapshotError(f"cannot copy {path} to {target}: {error.strerror}") from error

    def ages_ms(self, prefix: str) -> dict[str, int]:
        folder, now = self._folder / prefix, time.time()
        found: dict[str, int] = {}
        for path in folder.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                found[path.relative_to(self._folder).as_posix()] = int((now - path.stat().st_mtime) * 1000)
        return found

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


class ObstoreObjects:
    """An object store: s3://, gs://, az://, memory:// and others that obstore knows."""

    def __init__(self, url: str) -> None:
        import obstore
        from obstore import store

        self._obstore: Any = obstore
        self._store: Any = store.from_url(url)

    def put(self, name: str, source: bytes | Path) -> None:
        self._call("write", name, lambda: self._obstore.put(self._store, name, source))

    def get(self, name: str) -> bytes:
        return bytes(self._call("read", name, lambda: self._obstore.get(self._store, name).bytes()))

    def fetch(self, name: str, target: Path) -> str:
        found: str = self._call("read", name, lambda: _written(self._obstore.get(self._store, name), target))
        return found

    def ages_ms(self, prefix: str) -> dict[str, int]:
        now = datetime.now(UTC)

        def listed() -> dict[str, int]:
            return {
                each["path"]: int((now - each["last_modified"]).total_seconds() * 1000)
                for batch in self._obstore.list(self._store, prefix=prefix)
                for each in batch
            }

        found: dict[str, int] = self._call("list", prefix, listed)
        return found

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._obstore.delete(self._store, name)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise SnapshotError(f"cannot delete {name}: {error}") from error

    @staticmethod
    def _call(action: str, name: str, function: Any) -> Any:
        try:
            return function()
        except Exception as error:
            raise SnapshotError(f"cannot {action} {name}: {error}") from error


def _written(chunks: Iterable[Buffer], target: Path) -> str:
    """Write a file and hash it in one pass: a chunk is still in the processor's cache."""
    found = hashlib.sha256()
    with target.open("wb") as file:
        for chunk in chunks:
            found.update(chunk)
            file.write(chunk)
    return found.hexdigest()


def open_objects(place: str, application_id: str) -> Objects:
    """`place`: a folder, or a URL. Errors: ConfigError without obstore, or for a URL that it cannot use."""
    if "://" not in place:
        return FolderObjects(Path(place, application_id))
    try:
        return ObstoreObjects(f"{place.rstrip('/')}/{application_id}")
    except ImportError as error:
        raise ConfigError(
            f"snapshot.dir {place!r} is an object store: pip install 'headrace[snapshots]' installs obstore"
        ) from error
    except Exception as error:
        raise ConfigError(f"snapshot.dir {place!r} cannot be used: {error}") from error
