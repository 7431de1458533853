"""The controller quorum keeps its laws in simulation, and planted bugs break them."""

from __future__ import annotations

import os
from collections import Counter

import pytest
import quorum_bugs
from headrace.controller.quorum.roles import Role
from network import FAIR, Weather
from quorum import Plan, SimController, SimQuorum
from replaying import check_seed_says_everything

pytestmark = pytest.mark.sim

SEEDS = int(os.environ.get("HEADRACE_SIM_SEEDS", "24"))


@pytest.mark.parametrize("first", range(1, SEEDS + 1, 12))
def test_random_faults_break_no_law(first: int) -> None:
    """Twelve seeds, each with its own plan; after the faults the quorum makes progress. Together they have
    every mark."""
    marks: Counter[str] = Counter()
    for seed in range(first, min(first + 12, SEEDS + 1)):
        try:
            marks += SimQuorum(seed).run().laws.marks
        except AssertionError as error:
            raise AssertionError(f"make sim SIM=quorum SEED={seed}: {error}") from error
    missing = [
        mark
        for mark in ("elected", "committed", "died", "truncated", "snapshot loaded", "voters changed")
        if not marks[mark]
    ]
    assert not missing, f"no seed of twelve has {missing}"


@pytest.mark.parametrize("bug", quorum_bugs.BUGS, ids=lambda bug: bug.__name__)
def test_planted_bug_is_found(bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rule is broken: some seed reports the law that depends on the rule."""
    law, plan, seeds = quorum_bugs.BUGS[bug]
    bug(monkeypatch)
    first = quorum_bugs.FIRST.get(bug, 1)
    for seed in (*range(first, seeds + 1), *range(1, first)):
        try:
            SimQuorum(seed, plan).run()
        except AssertionError as error:
            if law in str(error):
                return
    pytest.fail(f"none of {seeds} seeds reports {law}")


def test_seed_determines_the_trace() -> None:
    """The same trace twice in this process, and in another one with other string hashes."""
    check_seed_says_everything(SimQuorum, "quorum")


# --- the properties of Kafka's RaftEventSimulationTest, each over several seeds and sizes ------------------

SIZES = [(1, 0), (2, 1), (3, 1), (4, 0), (5, 2)]


def running(seed: int, voters: int, observers: int, weather: Weather = FAIR) -> SimQuorum:
    """A quorum with an active leader and a committed decision."""
    plan = Plan(voters=voters, observers=observers, fault_ms=0, auto_join=False)
    cluster = SimQuorum(f"property-{seed}", plan)
    cluster.network.weather = weather
    for node, controller in cluster.controllers.items():
        cluster.world.after(cluster.random.randrange(50), f"{node} starts", controller.start)
    cluster._write_on()
    cluster.require_progress(10_000)
    return cluster


def leader_of(cluster: SimQuorum) -> SimController:
    """The active leader of the highest epoch."""
    return max(cluster.active(), key=lambda controller: controller.living.context.epoch)


def stop(controller: SimController) -> None:
    """End a process, which does not restart."""
    controller.start = lambda: None  # type: ignore[method-assign]
    controller.die(power=True)


@pytest.mark.parametrize(("voters", "observers"), SIZES)
def test_elects_a_leader(voters: int, observers: int) -> None:
    """From formatted disks to a decision that every controller has applied."""
    for seed in range(5):
        running(seed, voters, observers).laws.at_end()


@pytest.mark.parametrize(("voters", "observers"), [(3, 1), (4, 0), (5, 2)])
def test_new_leader_is_elected_after_one_died(voters: int, observers: int) -> None:
    """A new leader is active within the fetch timeout and one or two elections."""
    for seed in range(5):
        cluster = running(seed, voters, observers)
        old = leader_of(cluster)
        stop(old)
        cluster.require_progress(10_000, without=(old,))


@pytest.mark.parametrize(("voters", "observers"), SIZES)
def test_quorum_recovers_after_all_died(voters: int, observers: int) -> None:
    """After a power loss of all controllers."""
    for seed in range(5):
        cluster = running(seed, voters, observers)
        for controller in cluster.controllers.values():
            controller.die(power=True)
        cluster.require_progress(20_000)
        cluster.laws.at_end()


@pytest.mark.parametrize(("voters", "observers"), [(3, 1), (5, 2)])
def test_isolated_leader_is_replaced_and_resigns(voters: int, observers: int) -> None:
    """The isolated leader resigns within one and a half fetch timeouts."""
    for seed in range(5):
        cluster = running(seed, voters, observers)
        old = leader_of(cluster)
        others = [node for node in cluster.controllers if node != old.node_id]
        cluster.network.separate([old.node_id], others)
        cluster.world.run(cluster.config.quorum_fetch_timeout_ms * 3 // 2 + 100)
        assert old.living.role is not Role.LEADER
        cluster.world.run(10_000, until=cluster.has_leader)
        assert old not in cluster.active()
        before = len(cluster.acknowledged)
        cluster.world.run(2_000)
        assert len(cluster.acknowledged) > before
        cluster.heal()
        cluster.require_progress(10_000)
        cluster.laws.at_end()


def test_majority_makes_progress_during_a_partition() -> None:
    """Three of five voters commit; after the partition all five have every decision."""
    for seed in range(5):
        cluster = running(seed, 5, 0)
        cluster.network.separate([1, 2], [3, 4, 5])
        cluster.world.run(8_000)
        before = len(cluster.acknowledged)
        cluster.world.run(2_000)
        assert len(cluster.acknowledged) > before
        cluster.heal()
        cluster.require_progress(10_000)
        cluster.laws.at_end()


def test_five_leaders_die_one_after_the_other() -> None:
    """Each leader ends right after its election; there are five voters."""
    for seed in range(5):
        cluster = running(seed, 5, 0)
        for _ in range(5):
            leader_of(cluster).die(power=True)
            assert cluster.world.run(20_000, until=cluster.has_leader), cluster.summary()
        cluster.require_progress(20_000)
        cluster.laws.at_end()


def test_voter_with_a_lost_disk_returns() -> None:
    """It catches up as an observer; with auto join it becomes a voter in place of its old directory id."""
    for auto_join in (False, True):
        for seed in range(3):
            plan = Plan(voters=3, observers=0, fault_ms=0, auto_join=auto_join)
            cluster = SimQuorum(f"disk-{seed}", plan).run()
            victim = cluster.controllers[1]
            old_key = victim.key
            victim.die(power=True)
            victim.new_disk()
            cluster.require_progress(20_000)
            cluster.world.run(10_000)
            voters = cluster.controllers[2].living.context.voters
            assert (old_key in voters, victim.key in voters) == (not auto_join, auto_join)
            cluster.laws.at_end()


# --- scenarios ---------------------------------------------------------------------------------------------


def test_isolated_voter_returns_without_an_election() -> None:
    """Leader and epoch stay the same (pre-vote)."""
    for seed in range(10):
        cluster = running(seed, 3, 0)
        leader = leader_of(cluster)
        epoch = leader.living.context.epoch
        away = next(node for node in cluster.controllers if node != leader.node_id)
        cluster.network.separate([away], [node for node in cluster.controllers if node != away])
        cluster.world.run(20_000)
        cluster.network.heal()
        cluster.require_progress(10_000)
        assert (leader_of(cluster), leader.living.context.epoch) == (leader, epoch)


def test_isolated_voter_forces_an_election_without_pre_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario above fails without pre-vote."""
    quorum_bugs.skips_pre_vote(monkeypatch)
    with pytest.raises(AssertionError):
        test_isolated_voter_returns_without_an_election()


def test_isolated_leader_does_not_resign_without_check_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario of the isolated leader fails without check quorum."""
    quorum_bugs.never_checks_its_quorum(monkeypatch)
    with pytest.raises(AssertionError):
        test_isolated_leader_is_replaced_and_resigns(3, 0)


def test_stopping_leader_is_replaced_at_once() -> None:
    """It resigns: the next leader does not wait for the fetch timeout."""
    from headrace.controller.quorum.events import StopRequested

    for seed in range(10):
        cluster = running(seed, 3, 0)
        old = leader_of(cluster)
        old.step(StopRequested())
        begin_ms = cluster.world.now_ms
        assert cluster.world.run(10_000, until=cluster.has_leader)
        assert cluster.world.now_ms - begin_ms < cluster.config.quorum_fetch_timeout_ms
        assert leader_of(cluster) is not old


def test_only_voter_leads_in_its_first_step() -> None:
    """Election and first decision take one flush, and no request."""
    cluster = SimQuorum("one", Plan(voters=1, observers=0, fault_ms=0))
    controller = cluster.controllers[1]
    controller.start()
    assert controller.living.role is Role.LEADER
    assert cluster.world.run(1_000, until=lambda: controller.living.is_active)
    assert cluster.network.delivered == 0
