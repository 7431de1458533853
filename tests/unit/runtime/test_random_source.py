"""The Protocol of random generators, which mypy checks here."""

from random import Random

from headrace.runtime.random_source import RandomSource


def test_the_standard_generator_fits() -> None:
    """Production code passes random.SystemRandom, tests random.Random."""
    source: RandomSource = Random(1)
    items = [1, 2, 3]
    source.shuffle(items)
    assert sorted(items) == [1, 2, 3]
    assert 0 <= source.randrange(3) < 3
    assert 1 <= source.uniform(1, 2) <= 2
    assert len(source.randbytes(3)) == 3
