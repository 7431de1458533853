"""The share of unauthenticated connections in a turn of the event loop."""

import time
from collections.abc import Callable

from headrace.services.kafka_listener.turns_io import TURN_S, Turns


class Step:
    """A step that takes some time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.count = seconds, 0

    def take_turn(self) -> None:
        self.count += 1
        end_s = time.monotonic() + self.seconds
        while time.monotonic() < end_s:
            pass


def test_each_turn_of_the_loop_takes_its_share_only() -> None:
    soon: list[Callable[[], None]] = []
    turns = Turns(soon.append)
    steps = [Step(TURN_S) for _ in range(3)]
    for step in steps:
        turns.add(step)
    for done in (1, 2, 3):
        assert len(soon) == 1
        soon.pop()()
        assert [step.count for step in steps] == [1] * done + [0] * (3 - done)
    assert soon == []


def test_short_steps_share_a_turn_in_their_order() -> None:
    soon: list[Callable[[], None]] = []
    turns, order = Turns(soon.append), []

    class Noted(Step):
        def take_turn(self) -> None:
            order.append(self)
            if len(order) == 1:
                turns.add(self)

    first, second = Noted(), Noted()
    turns.add(first)
    turns.add(second)
    while soon:
        soon.pop()()
    assert order == [first, second, first]
