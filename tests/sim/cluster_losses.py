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
    """Whoever has read what is not in the log any more reads what is only after it was told."""
    final = cluster.rules.final
    lost: dict[Any, int] = {}
    for op in process.ops:
        for key in op.keys:
            lost.pop(key, None)
        for poll in op.polls:
            if not is_unclean(poll.key):
                continue
            for offset, value in poll.reads:
                if final[poll.key].get(offset) != value:
                    lost[poll.key] = offset
                assert poll.key not in lost or lost[poll.key] == offset, (
                    f"MixedRead: {process.name} goes on with {poll.key} at {offset}, behind {lost[poll.key]} "
                    f"which is not in the log any more, without being told"
                )
