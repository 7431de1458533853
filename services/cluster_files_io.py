"""Files under HEADRACE_HOME (default ~/.headrace): one small file per cluster, and the clusters' data.

`clusters/<name>.json` says how to reach a cluster from this machine. It is only a pointer: the authoritative
state is in the actors, which are found by name, and on their disks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from ..protocol.errors import ConfigError, HeadraceError, NoClusterError
from .secured_files import CLIENT_FILE, FOLDER, parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_CLUSTER = "default"
_LEGAL_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?\Z")


class UnknownClusterError(NoClusterError):
    """No cluster of this name was started from this machine or runs on this Ray."""


class OwnRayEntry(msgspec.Struct, frozen=True):
    """The Ray that was started for the cluster, identified by its leading process."""

    pid: int
    created_s: float
    temp_dir: str


class ClusterFile(msgspec.Struct, frozen=True):
    """How to reach one cluster. `own_ray` is None if it joined an existing Ray.

    `config` has the keys of its start, which also apply to nodes that are added later; `pins` has the Ray
    resource that ties each server, by name, to the machine of its disk. `ray_env` has the RAY_* variables of
    processes that connect to the Ray. `removed` are ids of nodes that are never started again; `nodes` is the
    number of the others.
    """

    cluster: str
    ray_address: str
    bootstrap: tuple[str, ...]
    nodes: int
    data_dir: str
    own_ray: OwnRayEntry | None = None
    ray_env: dict[str, str] = msgspec.field(default_factory=lambda: {"RAY_AUTH_MODE": "disabled"})
    config: dict[str, str] = {}
    controllers: int = 1
    pins: dict[str, str] = {}
    removed: tuple[int, ...] = ()


# Order: created at import, because the first decoder of a type must not be created by two threads at once;
# see protocol/transport/wire.py.
_decode = msgspec.json.Decoder(ClusterFile).decode


def home_dir() -> Path:
    """HEADRACE_HOME, or ~/.headrace."""
    return Path(os.environ.get("HEADRACE_HOME") or "~/.headrace").expanduser().absolute()


def default_data_dir(cluster: str) -> str:
    """The data dir of a cluster, unless it is configured."""
    return str(home_dir() / "data" / cluster)


def remove_empty_data_home() -> None:
    """Remove the parent folder of the default data dirs if it is empty."""
    with contextlib.suppress(OSError):
        (home_dir() / "data").rmdir()


def checked_name(cluster: str) -> str:
    """The cluster's name, validated for file names and Ray namespaces. Errors: ConfigError."""
    if not _LEGAL_NAME.match(cluster):
        raise ConfigError(
            f"a cluster name has 1 to 63 of a-z, 0-9, '.', '_', '-', and a letter or digit at both ends:"
            f" {cluster!r}"
        )
    return cluster


def write_cluster_file(cluster_file: ClusterFile) -> None:
    """Write the file atomically."""
    path = _path(cluster_file.cluster)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(cluster_file), indent=2) + b"\n")
    os.replace(temporary, path)


def read_cluster_file(cluster: str) -> ClusterFile:
    """Errors: UnknownClusterError; ConfigError for an unreadable file."""
    path = _path(cluster)
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError as error:
        known = ", ".join(known_clusters())
        hint = f"; known clusters: {known}" if known else ""
        raise UnknownClusterError(f"no cluster {cluster!r} was started from this machine{hint}") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def admin_config(data_dir: str) -> dict[str, str]:
    """The client config of the user `admin` of a secured cluster, for the operator that started it; empty
    without such a user, or if this operator may not read it."""
    try:
        return parse_properties((Path(data_dir) / FOLDER / CLIENT_FILE).read_text())
    except OSError:
        return {}


def remove_cluster_file(cluster: str) -> None:
    """Delete the file of a cluster, and its secrets; its data is kept."""
    for path in (_path(cluster), ray_token_file(cluster), secret_file(cluster)):
        path.unlink(missing_ok=True)


def ray_token_file(cluster: str) -> Path:
    """The file with the token of the Ray that was started for the cluster, mode 0600."""
    return _path(cluster).with_suffix(".ray_token")


def secret_file(cluster: str) -> Path:
    """The file with the secret that calls of the cluster's actors need, mode 0600."""
    return _path(cluster).with_suffix(".secret")


def known_clusters() -> list[str]:
    """The names of all clusters with a file, sorted."""
    return sorted(path.stem for path in (home_dir() / "clusters").glob("*.json"))


@contextlib.contextmanager
def cluster_lock(cluster: str) -> Iterator[None]:
    """Exclude a concurrent `up` or `down` of the cluster on this machine. Errors: HeadraceError if one is
    running."""
    path = _path(cluster).with_suffix(".lock")
    with _opened_in_folder(path) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(cluster) from error
        # the last holder has deleted the file: a lock on the deleted file has no effect
        if not path.exists() or path.stat().st_ino != os.fstat(stream.fileno()).st_ino:
            raise _busy(cluster)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # remove the empty folder of the last cluster
                path.parent.rmdir()
                path.parent.parent.rmdir()


def _opened_in_folder(path: Path) -> BinaryIO:
    """Open a lock file; another command may remove the empty folder concurrently."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return path.open("ab")


def _busy(cluster: str) -> HeadraceError:
    return HeadraceError(f"another `up` or `down` of cluster {cluster!r} is running")


def _path(cluster: str) -> Path:
    return home_dir() / "clusters" / f"{checked_name(cluster)}.json"
