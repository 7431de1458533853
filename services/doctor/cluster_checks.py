"""Checks of a running cluster: nodes, quorum, replication of topics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .facts import ClusterFacts, ReplicaFacts

MAX_NAMED = 5  # topics that a finding names


def check_cluster(cluster: ClusterFacts) -> Iterator[Finding]:
    """All checks of this module."""
    for trouble in cluster.troubles:
        yield _of("cluster", Severity.WARNING, f"not checked: {trouble}", "headrace status")
    yield from _nodes(cluster)
    yield from _quorum(cluster)
    yield from _topics(cluster)


def _nodes(cluster: ClusterFacts) -> Iterator[Finding]:
    for node in cluster.fenced:
        problem = f"node {node} ({cluster.nodes.get(node, '?')}) is fenced: it sends no heartbeats"
        yield _of(
            "fenced", Severity.ERROR, problem, "headrace status  # then docs/OPERATIONS.md, A node is fenced"
        )
    for node in cluster.shutting_down:
        problem = f"node {node} is drained or stops: it leads no partition"
        yield _of("drained", Severity.INFO, problem, f"headrace node drain {node} --cancel")
    for place in cluster.offline_dirs:
        yield _of(
            "log-dir", Severity.ERROR, f"log dir {place} is offline", "sudo dmesg -T | grep -i 'i/o error'"
        )
    for place in cluster.full_dirs:
        problem = f"log dir {place}"
        yield _of("log-dir", Severity.ERROR, problem, "headrace log dirs")


def _quorum(cluster: ClusterFacts) -> Iterator[Finding]:
    if not cluster.voters:
        return
    total, behind = len(cluster.voters), len(cluster.voters_behind)
    spare = (total - 1) // 2
    names = ", ".join(map(str, cluster.voters_behind))
    if cluster.leader_id < 0:
        yield _of("quorum", Severity.ERROR, "no controller leads", "headrace quorum status")
    if behind and behind >= spare:
        problem = f"controllers {names} of {total} do not follow: one more failure stops all decisions"
        severity = Severity.ERROR if behind > spare else Severity.WARNING
        yield _of("quorum", severity, problem, "headrace quorum status")
    elif behind:
        yield _of("quorum", Severity.WARNING, f"controllers {names} do not follow", "headrace quorum status")
    if total == 1 and len(cluster.nodes) > 1:
        problem = "one controller: while it is down no leader is replaced, and its disk has all metadata"
        yield _of("controllers", Severity.WARNING, problem, "headrace down && headrace up --controllers 3")
    elif total % 2 == 0:
        problem = f"{total} controllers tolerate no more failures than {total - 1}"
        yield _of(
            "controllers", Severity.INFO, problem, f"headrace quorum remove-voter {max(cluster.voters)}"
        )


def _topics(cluster: ClusterFacts) -> Iterator[Finding]:
    several = len(cluster.nodes) > 1
    for check, severity, problem, fix, found in (
        (
            "offline",
            Severity.ERROR,
            "have partitions without a leader: clients can neither read nor write them",
            "headrace partition elect --preferred --all",
            [topic for topic in cluster.topics if topic.offline],
        ),
        (
            "below-min-isr",
            Severity.ERROR,
            "have fewer in-sync replicas than min.insync.replicas: produce requests with acks=all fail",
            "headrace node list  # start the missing nodes",
            [topic for topic in cluster.topics if topic.below_min and not topic.offline],
        ),
        (
            "under-replicated",
            Severity.WARNING,
            "have replicas that are not in sync",
            "headrace node list  # start the missing nodes; headrace topic describe NAME",
            [topic for topic in cluster.topics if topic.under_replicated],
        ),
        (
            "one-replica",
            Severity.WARNING,
            "have one replica: the failure of a disk loses their records",
            "headrace partition reassign --help  # the replicas of a topic",
            [topic for topic in cluster.topics if topic.replication_factor == 1 and several],
        ),
        (
            "min-isr-equals-replicas",
            Severity.WARNING,
            "need all replicas for acks=all (min.insync.replicas): one missing node stops it",
            "headrace config alter --topic NAME --set min.insync.replicas=N  # below the replicas",
            [topic for topic in cluster.topics if topic.min_in_sync >= topic.replication_factor > 1],
        ),
        (
            "min-isr-one",
            Severity.INFO,
            "have min.insync.replicas=1: acks=all may be acknowledged by a single disk",
            "headrace config alter --topic NAME --set min.insync.replicas=2",
            [topic for topic in cluster.topics if topic.min_in_sync == 1 and topic.replication_factor > 2],
        ),
    ):
        if found:
            yield _of(
                check, severity, f"topics {_named(found)} {problem}", fix.replace("NAME", found[0].topic)
            )


def _named(topics: Sequence[ReplicaFacts]) -> str:
    names = [topic.topic for topic in topics[:MAX_NAMED]]
    more = len(topics) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _of(check: str, severity: Severity, problem: str, fix: str) -> Finding:
    return Finding(check, severity, "cluster", problem, fix)
