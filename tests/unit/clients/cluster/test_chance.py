"""The Protocol of random generators."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.clients.cluster.chance import Chance


def test_the_standard_generator_fits() -> None:
    """Shells pass random.Random."""
    chance: Chance = Random(1)
    items = [1, 2, 3]
    chance.shuffle(items)
    assert sorted(items) == [1, 2, 3]
    assert 0 <= chance.randrange(3) < 3
    assert 1 <= chance.uniform(1, 2) <= 2
