"""The topic of a simulated cluster that would rather lose records than stay without a leader, and what may
happen to it: no record is lost of a partition that never had an unclean election, and no reader goes on
behind records that were cut off without being told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster import SimCluster
    from history import Process

UNCLEAN = "u"
# What a history shows when the end of a log is replaced by another one.
ALLOWED = frozenset(
    (
        "inconsistent-offsets", "lost-write", "unseen", "poll-skip", "int-poll-skip", "nonmonotonic-poll",
        "int-nonmonotonic-poll", "nonmonotonic-send",
    )
)  # fmt: skip
RETRIED = 20  # more records than one batch has


def is_unclean(key: Any) -> bool:
    """Whether the partition (topic, number) is of that topic."""
    return bool(key[0] == UNCLEAN)


def check_unclean(cluster: SimCluster) -> None:
    """At the end. Errors: AssertionError if more happened to its records than may."""
    cut = cluster.rules.unclean_epochs
    found = cluster.history.only(lambda key: key in cut).anomalies()
    worse = {name: texts for name, texts in found.items() if name not in ALLOWED}
    assert not worse, f"history: {worse}"
    for process in cluster.history.processes:
        _check_reads(cluster, process)


def _check_reads(cluster: SimCluster, process: Process) -> None:
    """Whoever has read what is not in the log any more reads what is only after it was told. A producer that
    retried may have written a few values again at their old offsets: they say nothing."""
    final = cluster.rules.final
    behind: dict[Any, int] = {}  # how many reads since one of what is lost
    for op in process.ops:
        for key in op.keys:
            behind.pop(key, None)
        for poll in op.polls:
            reads = poll.reads if is_unclean(poll.key) else ()
            for offset, value in reads:
                if final[poll.key].get(offset) != value:
                    behind[poll.key] = 0
                elif poll.key in behind:
                    behind[poll.key] += 1
                    assert behind[poll.key] <= RETRIED, (
                        f"MixedRead: {process.name} has read {poll.key} up to {offset}, behind what is not "
                        f"in the log any more, and was not told"
                    )
