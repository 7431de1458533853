"""Waits for transaction markers, because EndTxn is acknowledged before all markers are written."""

from typing import Any

from waiting import wait_for

DECIDED = ("PrepareCommit", "PrepareAbort")


def until_markers_are_written(cluster: Any) -> None:
    """Wait until the markers of all decided transactions are written. `cluster` has an `admin()`."""
    admin = cluster.admin()
    wait_for(lambda: not admin.list_transactions(states=DECIDED), "the markers are written")
