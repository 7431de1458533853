"""The data dir of a cluster on this machine: one folder per server, `node-3` or `controller-1`."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..protocol.errors import HeadraceError
from ..runtime.files.files_io import OsFiles
from .cluster_files_io import remove_empty_data_home
from .discovery import CONTROLLER_PREFIX, NODE_PREFIX

_REMOVED = ".removed"


def nodes_with_data(data_dir: str) -> int:
    """The highest index of a storage node's folder, without removed nodes below it: `up` after `down` starts
    as many nodes."""
    highest = _highest_index(data_dir, NODE_PREFIX)
    return highest - sum(index <= highest for index in removed_nodes(data_dir))


def removed_nodes(data_dir: str) -> tuple[int, ...]:
    """The ids of nodes that were removed from the cluster, sorted."""
    names = [path.name.removesuffix(_REMOVED) for path in Path(data_dir).glob(f"{NODE_PREFIX}*{_REMOVED}")]
    return tuple(sorted(index_of(name)[0] for name in names))


def mark_removed(data_dir: str, node_id: int) -> None:
    """Remember, beside the data of the other nodes, that this one is gone."""
    Path(data_dir).mkdir(parents=True, exist_ok=True)
    (Path(data_dir) / f"{NODE_PREFIX}{node_id}{_REMOVED}").touch()


def controllers_with_data(data_dir: str) -> int:
    """The highest index of a controller's folder."""
    return _highest_index(data_dir, CONTROLLER_PREFIX)


def index_of(name: str) -> tuple[int, str]:
    """The sort key of servers: the number in the name (0 without one), and the name."""
    digits = name.rpartition("-")[2]
    return (int(digits) if digits.isdigit() else 0, name)


def remove_data(data_dir: str) -> None:
    """Remove the data dir with all logs."""
    shutil.rmtree(data_dir, ignore_errors=True)
    remove_empty_data_home()


def check_unused(data_dir: str) -> None:
    """Errors: HeadraceError if a server, of a cluster that was started elsewhere, uses its folder."""
    for path in sorted(Path(data_dir).glob("*/.lock")):
        lock = OsFiles().lock(str(path))
        if lock is None:
            raise HeadraceError(
                f"{path.parent} is in use by a running server: stop its cluster from the machine that"
                " started it"
            )
        lock.release()


def _highest_index(data_dir: str, prefix: str) -> int:
    names = [path.name for path in Path(data_dir).glob(f"{prefix}*")]
    return max((index_of(name)[0] for name in names), default=0)
