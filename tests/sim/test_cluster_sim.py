"""A simulated cluster keeps the laws of replication, and each law finds a planted bug."""

from __future__ import annotations

import os
from collections import Counter

import cluster_bugs
import pytest
import txn_bugs
from cluster import Plan, SimCluster
from cluster_laws import Laws
from commit_laws import CommitLaw
from replaying import check_seed_says_everything

pytestmark = pytest.mark.sim

SEEDS = int(os.environ.get("HEADRACE_CLUSTER_SIM_SEEDS", "30"))
GROUP = 50
BLACKOUT_SEEDS = max(SEEDS // 6, 8)
SCRIPTED = (
    cluster_bugs.EPOCH_COMPACTED,
    cluster_bugs.SWAPPED,
    cluster_bugs.DRAINED,
    cluster_bugs.DELETED,
    cluster_bugs.RULED,
    txn_bugs.CUT_OFF,
)
MARKS = (
    "committed",
    "led",
    "leader changed",
    "ISR shrunk",
    "ELR",
    "truncated",
    "died",
    "stopped",
    "wiped",
    "harmed",
    "unclean election",
    "cold read",
    "recompressed batch",
    "started later",
    "erased",
    "cleaned",
    "gaps",
    "moved",
    "transaction committed",
    "transaction aborted",
    "transaction prepared",
    "fenced off",
    "zombie",
    "offsets fetched",
    "work on_revoked",
    "work on_lost",
    "coordinator checked",
    "coordinator log cleaned",
    "rule added",
    "rule removed",
    "member added",
    "member removed",
    "decided by a removed rule",
    "rules unknown",
    "plan carried out",
    "empty complete",
)


@pytest.mark.timeout(60 * GROUP)  # a busy machine may take minutes for what takes 2 s a seed
@pytest.mark.parametrize("first", range(1, SEEDS + 1, GROUP))
def test_random_faults_break_no_law(first: int) -> None:
    """Each seed is one run; after its faults have healed the cluster makes progress, with equal replicas and
    a history without anomalies. All seeds together have passed every mark of `MARKS`."""
    marks: Counter[str] = Counter()
    for seed in range(first, min(first + GROUP, SEEDS + 1)):
        try:
            marks += SimCluster(seed).run().rules.marks
        except AssertionError as error:
            raise AssertionError(f"make sim SIM=cluster SEED={seed}: {error}") from error
    missing = [mark for mark in MARKS if not marks[mark]]
    assert not missing, f"no seed of {GROUP} reached {missing}"


@pytest.mark.parametrize("plan", [cluster_bugs.BLACKOUT, cluster_bugs.BLACKOUT_ASYNC], ids=["fsync", "async"])
def test_a_power_loss_of_all_nodes_keeps_flushed_records(plan: Plan) -> None:
    """Scenario 32: each disk keeps its synced bytes; some of the others are lost or torn, in any order. With
    fsync no acknowledged record is lost; with async none that all in-sync replicas had flushed."""
    marks: Counter[str] = Counter()
    for seed in range(1, BLACKOUT_SEEDS + 1):
        marks += SimCluster(seed, plan).run().rules.marks
    assert marks["blackout"] > BLACKOUT_SEEDS
    if plan.durability == "async":
        assert marks["may be lost"]
        assert marks["must survive"]


def finds(laws: tuple[str, ...], plan: Plan, seeds: int, first: int = 1) -> bool:
    """Whether one of the seeds breaks one of the laws. `first`, the seed with the best chance, runs first."""
    assert first <= seeds
    for seed in (*range(first, seeds + 1), *range(1, first)):
        try:
            SimCluster(seed, plan).run()
        except Exception as error:  # noqa: BLE001 - a planted bug may also raise another error
            if any(law in str(error) for law in laws):
                return True
    return False


@pytest.mark.parametrize("bug", cluster_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed breaks one of the laws that depend on the broken rule."""
    laws, plan, seeds = cluster_bugs.BUGS[bug]
    bug(monkeypatch)
    assert finds(laws, plan, seeds, cluster_bugs.FIRST.get(bug, 1)), (
        f"{seeds} seeds have broken none of {laws}"
    )


@pytest.mark.parametrize("name", cluster_bugs.BLIND)
def test_a_later_law_reports_the_bug_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the laws disabled that report the bug first, a later law reports it."""
    blind, laws, plan, seeds = cluster_bugs.BLIND[name]
    for method in blind:
        owner = next(each for each in (Laws, CommitLaw) if hasattr(each, method))
        monkeypatch.setattr(owner, method, lambda *_: None)
    getattr(cluster_bugs, name)(monkeypatch)
    assert finds(laws, plan, seeds, cluster_bugs.FIRST_BLIND.get(name, 1)), (
        f"{seeds} seeds have broken none of {laws}"
    )


@pytest.mark.parametrize("plan", SCRIPTED, ids=lambda plan: plan.scenario)
def test_a_scripted_scenario_breaks_no_law(plan: Plan) -> None:
    """A planted bug breaks a law in each of these scenarios: see `BUGS` and `BLIND`."""
    SimCluster(1, plan).run()


def test_a_seed_determines_the_run() -> None:
    """Equal traces twice in this process, and in a process with another hash seed."""
    check_seed_says_everything(SimCluster, "cluster")
