"""The topic of a simulated cluster with unclean.leader.election.enable, and its laws.

A partition that never had an unclean election loses no record. A consumer that has read records which an
unclean election truncated gets an error before it reads records after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster import SimCluster
    from history import Process

UNCLEAN = "u"
# The anomalies of a history in which an unclean election replaced the end of a log.
ALLOWED = frozenset(
    (
        "inconsistent-offsets", "lost-write", "unseen", "poll-skip", "int-poll-skip", "nonmonotonic-poll",
        "int-nonmonotonic-poll", "nonmonotonic-send",
    )
)  # fmt: skip
RETRIED = 20  # more records than a batch has


def is_unclean(key: Any) -> bool:
    """Whether the partition (topic, number) belongs to that topic."""
    return bool(key[0] == UNCLEAN)


def check_unclean(cluster: SimCluster) -> None:
    """At the end of a run. Errors: AssertionError for anomalies that no unclean election explains."""
    cut = cluster.rules.unclean_epochs
    found = cluster.history.only(lambda key: key in cut).anomalies()
    worse = {name: texts for name, texts in found.items() if name not in ALLOWED}
    assert not worse, f"history: {worse}"
    for process in cluster.history.processes:
        _check_reads(cluster, process)


def _check_reads(cluster: SimCluster, process: Process) -> None:
    """MixedRead: a consumer that has read truncated records gets an error, or seeks, before it reads on. A
    retried batch may put a few values at their old offsets again: up to `RETRIED` such reads are allowed."""
    final = cluster.rules.final
    behind: dict[Any, int] = {}  # number of reads of kept records since a read of a truncated record
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
                        f"MixedRead: {process.name} has read {poll.key} up to {offset} after truncated "
                        f"records, without an error"
                    )
