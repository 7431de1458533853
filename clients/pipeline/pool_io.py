"""One set of connections per process and cluster, shared by the tasks that run there.

Engines reuse their Python workers, and a task of a small range would spend its time on connecting. Idle
connections are closed. A forked child starts without any.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ..sync.cluster_io import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cluster.cluster_io import ClusterIo

IDLE_S = 60.0
CLOSE_TIMEOUT_S = 5.0

Key = tuple[str | None, tuple[tuple[str, Any], ...]]


class _Shared:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.io = cluster, cluster.io
        self.users = 0
        self.idle_since_s = 0.0
        self.topics: set[str] = set()  # kept in the metadata view until it is closed


_news = threading.Condition()
_open: dict[Key, _Shared] = {}
_reaper: threading.Thread | None = None


@contextlib.contextmanager
def shared_cluster(bootstrap: str | None, client: tuple[tuple[str, Any], ...]) -> Iterator[Cluster]:
    """The shared connections to a cluster with these client keys. Errors: ConfigError."""
    key, pid = (bootstrap, client), os.getpid()
    shared = _take(key)
    try:
        yield shared.cluster
    finally:
        if pid == os.getpid():  # otherwise it belongs to the parent
            _give_back(shared)


def keep_topics(io: ClusterIo, *topics: str) -> None:
    """Keep topics in the metadata view of shared connections, so that the next task need not request them. On
    their loop."""
    with _news:
        shared = next((each for each in _open.values() if each.io is io), None)
        new = [] if shared is None else [topic for topic in topics if topic not in shared.topics]
        if shared is not None:
            shared.topics.update(new)
    io.hub.metadata.watch(new)


def close_idle(idle_s: float = 0.0) -> int:
    """Close connections that were idle for `idle_s`; returns the number of open ones."""
    latest_s = time.monotonic() - idle_s
    with _news:
        due = [key for key, each in _open.items() if not each.users and each.idle_since_s <= latest_s]
        closing = [_open.pop(key) for key in due]
        left = len(_open)
    for shared in closing:
        with contextlib.suppress(HeadraceError, TimeoutError):
            shared.cluster.close(CLOSE_TIMEOUT_S)
    return left


def _take(key: Key) -> _Shared:
    with _news:
        shared = _open.get(key)
        if shared is not None and shared.io.failure is None:
            shared.users += 1
            return shared
    # Order: without the lock, because this starts a thread; a concurrent second one is closed again.
    made = _Shared(Cluster(key[0], config=dict(key[1])))
    with _news:
        shared = _open.get(key)
        if shared is None or shared.io.failure is not None:
            shared = _open[key] = made
        shared.users += 1
    if shared is not made:
        made.cluster.close(CLOSE_TIMEOUT_S)
    return shared


def _give_back(shared: _Shared) -> None:
    global _reaper
    with _news:
        shared.users -= 1
        shared.idle_since_s = time.monotonic()
        if _reaper is None and not shared.users:
            _reaper = threading.Thread(target=_reap, name="headrace-pool", daemon=True)
            _reaper.start()


def _reap() -> None:
    global _reaper
    while True:
        close_idle(IDLE_S)
        with _news:
            if not _open:
                _reaper = None
                return
            _news.wait(IDLE_S)


def _after_fork_in_child() -> None:
    global _news, _reaper
    _news = threading.Condition()
    _open.clear()
    _reaper = None


os.register_at_fork(after_in_child=_after_fork_in_child)
