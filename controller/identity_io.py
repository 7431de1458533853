"""The identity of a controller's metadata log dir: `meta.properties`, as in Kafka.

The directory id is generated when a controller first uses a directory, before anything else is written there,
and names the replica in the voter set. A wiped disk gets a new one, so that it is never taken for the voter
whose votes it has lost.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError, KafkaStorageError
from ..runtime.files.file_layer import read_file, write_file_atomically
from ..storage_node.log.checkpoints import (
    CorruptFileError,
    format_properties,
    parse_properties,
    uuid_from_text,
    uuid_text,
)
from ..storage_node.log.names import META_PROPERTIES
from .quorum.metadata_log import METADATA_PARTITION

if TYPE_CHECKING:
    from ..runtime.files.file_layer import Files

_VERSION = "1"


@dataclass(frozen=True)
class DiskIdentity:
    """`is_blank`: the directory has no metadata log; `is_older`: it has one from before directory ids, of a
    single controller."""

    controller_id: int
    directory_id: bytes
    cluster_id: str = ""  # empty until it is known
    is_blank: bool = False
    is_older: bool = False


def load_identity(files: Files, directory: str, controller_id: int) -> DiskIdentity:
    """Read the identity of a directory, or generate it; durable on return. Errors: ConfigError when it
    belongs to another controller; KafkaStorageError, also for a damaged file."""
    log_dir = f"{directory}/{METADATA_PARTITION}"
    has_log = files.exists(log_dir) and bool(files.listdir(log_dir))
    path = f"{directory}/{META_PROPERTIES}"
    if files.exists(path):
        return replace(_read(files, path, controller_id), is_blank=not has_log)
    found = DiskIdentity(controller_id, _new_id(), is_blank=not has_log, is_older=has_log)
    write_identity(files, directory, found)
    return found


def write_identity(files: Files, directory: str, identity: DiskIdentity) -> None:
    """Replace the file. Errors: KafkaStorageError."""
    properties = {"version": _VERSION, "node.id": str(identity.controller_id)}
    if identity.cluster_id:
        properties["cluster.id"] = identity.cluster_id
    properties["directory.id"] = uuid_text(identity.directory_id)
    write_file_atomically(files, directory, META_PROPERTIES, format_properties(properties))


def _read(files: Files, path: str, controller_id: int) -> DiskIdentity:
    try:
        properties = parse_properties(read_file(files, path))
        owner = int(properties["node.id"])
        directory_id = uuid_from_text(properties["directory.id"])
    except (CorruptFileError, KeyError, ValueError) as error:
        raise KafkaStorageError(f"{path} is damaged: {error!r}") from error
    if owner != controller_id:
        raise ConfigError(f"{path} belongs to controller {owner}, not {controller_id}")
    return DiskIdentity(controller_id, directory_id, properties.get("cluster.id", ""))


def _new_id() -> bytes:
    """A random id that is not zero, Kafka's value for no id."""
    return secrets.token_bytes(15) + b"\x01"
