"""What headrace keeps under HEADRACE_HOME (default ~/.headrace): one small file per cluster, and its data.

`clusters/<name>.json` says how to reach a cluster from this machine. It is a pointer, not the truth: the
truth is in the actors (found by name) and on their disks.
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

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_CLUSTER = "default"
_LEGAL_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?\Z")


class UnknownClusterError(NoClusterError):
    """No cluster of this name was started from this machine, or is on this Ray."""


class OwnRayFacts(msgspec.Struct, frozen=True):
    """The Ray that was started for the cluster, by its leading process."""

    pid: int
    created_s: float
    temp_dir: str


class ClusterFile(msgspec.Struct, frozen=True):
    """How to reach one cluster. `own_ray` is None when it joined a Ray that was there.

    `config` has the keys it was started with, which nodes that are added later get as well; `pins` has the
    Ray resource that ties each server, by its name, to the machine of its disk.
    """

    cluster: str
    ray_address: str
    bootstrap: tuple[str, ...]
    nodes: int
    data_dir: str
    own_ray: OwnRayFacts | None = None
    auth_mode: str = "disabled"
    config: dict[str, str] = {}
    controllers: int = 1
    pins: dict[str, str] = {}


# Order: made while this is imported, because the first decoder of a type must not be made on two threads at
# once; see protocol/transport/wire.py.
_decode = msgspec.json.Decoder(ClusterFile).decode


def home_dir() -> Path:
    """HEADRACE_HOME, or ~/.headrace."""
    return Path(os.environ.get("HEADRACE_HOME") or "~/.headrace").expanduser().absolute()


def default_data_dir(cluster: str) -> str:
    """Where a cluster keeps its logs unless it is told otherwise."""
    return str(home_dir() / "data" / cluster)


def remove_empty_data_home() -> None:
    """Remove the folder of all default data dirs once the last one is gone."""
    with contextlib.suppress(OSError):
        (home_dir() / "data").rmdir()


def checked_name(cluster: str) -> str:
    """The cluster's name, fit for a file and a Ray namespace. Errors: ConfigError."""
    if not _LEGAL_NAME.match(cluster):
        raise ConfigError(
            f"a cluster name has 1 to 63 of a-z, 0-9, '.', '_', '-', and a letter or digit at both ends:"
            f" {cluster!r}"
        )
    return cluster


def write_cluster_file(facts: ClusterFile) -> None:
    """Write the file in one step, so that a reader never sees half of it."""
    path = _path(facts.cluster)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")
    os.replace(temporary, path)


def read_cluster_file(cluster: str) -> ClusterFile:
    """Errors: UnknownClusterError; ConfigError when the file cannot be read."""
    path = _path(cluster)
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError as error:
        known = ", ".join(known_clusters())
        hint = f"; known here: {known}" if known else ""
        raise UnknownClusterError(f"no cluster {cluster!r} was started from this machine{hint}") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def remove_cluster_file(cluster: str) -> None:
    """Forget the cluster; its data stays."""
    with contextlib.suppress(FileNotFoundError):
        _path(cluster).unlink()


def known_clusters() -> list[str]:
    """The names of all clusters with a file, sorted."""
    return sorted(path.stem for path in (home_dir() / "clusters").glob("*.json"))


@contextlib.contextmanager
def cluster_lock(cluster: str) -> Iterator[None]:
    """One `up` or `down` of a cluster at a time on this machine. Errors: HeadraceError when it is taken."""
    path = _path(cluster).with_suffix(".lock")
    with _opened_in_folder(path) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(cluster) from error
        # whoever held it before removed the file: a lock on what is left of it locks nobody out
        if not path.exists() or path.stat().st_ino != os.fstat(stream.fileno()).st_ino:
            raise _busy(cluster)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # nothing stays of the last cluster but its data
                path.parent.rmdir()
                path.parent.parent.rmdir()


def _opened_in_folder(path: Path) -> BinaryIO:
    """Open a lock file; another command may remove the empty folder between its making and this."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return path.open("ab")


def _busy(cluster: str) -> HeadraceError:
    return HeadraceError(f"another `up` or `down` of cluster {cluster!r} is running")


def _path(cluster: str) -> Path:
    return home_dir() / "clusters" / f"{checked_name(cluster)}.json"
