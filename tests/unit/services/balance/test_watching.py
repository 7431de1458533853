"""When the continuous balance moves: thresholds, hysteresis, pauses."""

import pytest
from headrace.services.balance.model import Imbalance, Spread
from headrace.services.balance.watching import Step, Thresholds, Watcher

EVEN = Spread(10, 10, 10)
SETTLED = Thresholds(threshold=0.25, rounds=2, settle_s=10)


def state(disk: float = 0.0, replicas: Spread = EVEN, misses: int = 0) -> Imbalance:
    """`disk`: how far the fullest node is above the mean, as a share of it."""
    return Imbalance(misses, replicas, Spread(1 - disk, 1, 1 + disk), EVEN, EVEN)


def decided(watcher: Watcher, *rounds: tuple[float, float]) -> list[Step]:
    """The steps of rounds of a healthy cluster at some second, with some imbalance of the disks."""
    return [watcher.decide(None, state(disk), disk > 0.1, now_s) for now_s, disk in rounds]


def test_moves_begin_at_the_threshold_and_end_at_the_tolerance() -> None:
    """0.2 is below the threshold and rests; 0.3 in two rounds begins; then 0.2 goes on, until nothing would
    move; and 0.2 rests again."""
    steps = decided(Watcher(SETTLED), (0, 0.2), (20, 0.3), (21, 0.3), (22, 0.2), (23, 0.05), (24, 0.2))
    assert steps == [Step.REST, Step.WATCH, Step.MOVE, Step.MOVE, Step.REST, Step.REST]


def test_one_bad_round_is_no_reason() -> None:
    """A peak of traffic passes."""
    assert decided(Watcher(SETTLED), (0, 0), (20, 0.5), (21, 0), (22, 0.5)) == [
        *(Step.REST, Step.WATCH, Step.REST, Step.WATCH),
    ]


def test_an_unhealthy_cluster_pauses_and_settles_first() -> None:
    """A node is gone while moves are due: nothing moves until ten seconds after its return; then at once."""
    watcher = Watcher(SETTLED)
    assert decided(watcher, (0, 0.5), (20, 0.5)) == [Step.WATCH, Step.MOVE]
    assert watcher.decide("node 1 is fenced", state(0.5), True, 21) is Step.PAUSE
    assert decided(watcher, (22, 0.5), (31, 0.5), (32, 0.5)) == [Step.PAUSE, Step.PAUSE, Step.MOVE]


@pytest.mark.parametrize(
    ("found", "is_bad"),
    [
        (state(replicas=Spread(0, 0.5, 1)), False),  # one replica on two nodes: it cannot be more even
        (state(replicas=Spread(0, 1, 2)), True),
        (state(misses=1), True),
        (state(0.25), False),
    ],
)
def test_what_is_a_reason(found: Imbalance, is_bad: bool) -> None:
    """Whole replicas are even when they are one apart; a missing rack is always one."""
    step = Watcher(Thresholds(0.25, 1, 0)).decide(None, found, True, 0)
    assert step is (Step.MOVE if is_bad else Step.REST)
