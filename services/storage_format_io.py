"""Formats the data dirs of servers, and reads their identities: `headrace storage`."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from ..controller.identity_io import DiskIdentity, write_identity
from ..controller.quorum.metadata_log import METADATA_PARTITION, MetadataLog
from ..controller.quorum.voters import Endpoint, ReplicaKey, voter
from ..protocol.errors import ConfigError, KafkaStorageError
from ..protocol.records.control import VoterSet
from ..runtime.clock_io import wall_ms
from ..runtime.files.file_layer import make_directory_durably, write_file_atomically
from ..runtime.files.files_io import OsFiles
from ..storage_node.log.checkpoints import (
    CorruptFileError,
    format_properties,
    parse_properties,
    uuid_from_text,
    uuid_text,
)
from ..storage_node.log.names import LOCK, META_PROPERTIES

if TYPE_CHECKING:
    from pathlib import Path

_ID_BYTES = 16


class Voter(NamedTuple):
    """A voter of a new quorum."""

    controller_id: int
    address: tuple[str, int]
    directory_id: bytes


def format_node(path: Path, cluster_id: str, node_id: int, *, ignore_formatted: bool) -> bool:
    """Write the identity of a storage node; False if it is there. Errors: ConfigError, KafkaStorageError."""
    if _is_formatted(path, cluster_id, node_id, ignore_formatted=ignore_formatted):
        return False
    properties = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": uuid_text(_new_id()),
    }
    _make(path)
    write_file_atomically(OsFiles(), str(path), META_PROPERTIES, format_properties(properties))
    return True


def format_controller(
    path: Path,
    cluster_id: str,
    controller_id: int,
    standalone: tuple[str, int] | None,
    voters: list[Voter],
    *,
    ignore_formatted: bool,
) -> bool:
    """Write the identity of a controller, and the voters of a new quorum if it is one of them.

    Errors: ConfigError, KafkaStorageError.
    """
    if _is_formatted(path, cluster_id, controller_id, ignore_formatted=ignore_formatted):
        return False
    own = next((each for each in voters if each.controller_id == controller_id), None)
    if voters and own is None:
        raise ConfigError(f"--initial-controllers does not name controller {controller_id}")
    directory_id = own.directory_id if own is not None else _new_id()
    if standalone is not None:
        voters = [Voter(controller_id, standalone, directory_id)]
    _make(path)
    if voters:
        found = sorted(voters)
        described = (
            voter(ReplicaKey(each.controller_id, each.directory_id), Endpoint(*each.address))
            for each in found
        )
        MetadataLog.format(OsFiles(), str(path), VoterSet(tuple(described)), wall_ms())
    # Order: the identity last, so that an interrupted format can be repeated.
    write_identity(OsFiles(), str(path), DiskIdentity(controller_id, directory_id, cluster_id))
    return True


def describe(path: Path) -> list[dict[str, Any]]:
    """The identity of a dir, or of each server's dir in it; state: formatted, blank or damaged."""
    if (path / META_PROPERTIES).exists():
        return [_described(path)]
    inner = sorted(each.parent for each in path.glob(f"*/{META_PROPERTIES}"))
    return [_described(each) for each in inner] or [_row(path, None, {}, "blank", f"no {META_PROPERTIES}")]


def _described(path: Path) -> dict[str, Any]:
    role = "controller" if (path / str(METADATA_PARTITION)).is_dir() else "node"
    try:
        properties = parse_properties((path / META_PROPERTIES).read_bytes())
        uuid_from_text(properties["directory.id"])
        int(properties["node.id"])
    except (CorruptFileError, KeyError, ValueError) as error:
        return _row(path, role, {}, "damaged", f"{META_PROPERTIES}: {error!r}")
    lock = OsFiles().lock(str(path / LOCK)) if (path / LOCK).exists() else None
    in_use = (path / LOCK).exists() and lock is None
    if lock is not None:
        lock.release()
    return _row(path, role, properties, "formatted", "in use by a running server" if in_use else None)


def _row(
    path: Path, role: str | None, properties: dict[str, str], state: str, detail: str | None
) -> dict[str, Any]:
    return {
        "directory": str(path),
        "role": role,
        "id": int(properties["node.id"]) if properties else None,
        "cluster_id": properties.get("cluster.id"),
        "directory_id": properties.get("directory.id"),
        "state": state,
        "detail": detail,
    }


def _is_formatted(path: Path, cluster_id: str, number: int, *, ignore_formatted: bool) -> bool:
    """Errors: ConfigError for the dir of another server or cluster, or with files of something else."""
    _check_id(cluster_id)
    if not path.exists() or not any(path.iterdir()):
        return False
    if not (path / META_PROPERTIES).exists():
        if [each.name for each in path.iterdir()] == [str(METADATA_PARTITION)]:
            return False  # an interrupted format
        raise ConfigError(f"{path} is not empty, and no data dir: it has no {META_PROPERTIES}")
    (found,) = describe(path)
    if found["state"] != "formatted":
        raise ConfigError(f"{path}: {found['detail']}")
    if (found["cluster_id"], found["id"]) != (cluster_id, number):
        raise ConfigError(f"{path} is the dir of server {found['id']} of cluster {found['cluster_id']}")
    if not ignore_formatted:
        raise ConfigError(f"{path} is formatted already; --ignore-formatted accepts that")
    return True


def _check_id(cluster_id: str) -> None:
    """Kafka's clusters ids are UUIDs; others are possible, but not in a file of properties."""
    if not cluster_id or len(cluster_id) > 100 or not all(c.isalnum() or c in "-_" for c in cluster_id):
        raise ConfigError(f"cluster id {cluster_id[:60]!r}: letters, digits, '-' and '_'")


def _make(path: Path) -> None:
    """Errors: KafkaStorageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KafkaStorageError(f"{path.parent}: {error.strerror}") from error
    make_directory_durably(OsFiles(), str(path))


def _new_id() -> bytes:
    """A random id that is not zero, Kafka's value for no id."""
    return secrets.token_bytes(_ID_BYTES - 1) + b"\x01"
