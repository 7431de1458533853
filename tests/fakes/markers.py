"""A commit is acknowledged before all markers are written: a read right after it may be early."""

from typing import Any

from waiting import wait_for

DECIDED = ("PrepareCommit", "PrepareAbort")


def until_markers_are_written(cluster: Any) -> None:
    """Of all transactions that are decided. `cluster` gives an `admin()`."""
    admin = cluster.admin()
    wait_for(lambda: not admin.list_transactions(states=DECIDED), "the markers are written")
