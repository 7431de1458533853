"""A commit is answered before its markers are in all partitions: who reads at once may come too soon."""

from typing import Any

from waiting import wait_for

DECIDED = ("PrepareCommit", "PrepareAbort")


def until_markers_are_written(cluster: Any) -> None:
    """Of all transactions that are decided. `cluster` gives an `admin()`."""
    admin = cluster.admin()
    wait_for(lambda: not admin.list_transactions(states=DECIDED), "the markers are written")
