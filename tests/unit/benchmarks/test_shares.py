"""When the members of a group have their final shares."""

from __future__ import annotations

import pytest
from headrace.benchmarks.shares import Shares


def shares(*of: tuple[int, ...], partitions: int = 4) -> Shares:
    """Member 0, 1, ... told of these, one after another."""
    found = Shares(partitions)
    for member, parts in enumerate(of):
        found.told(member, parts, 10 * (member + 1))
    return found


def test_each_partition_with_one_member_and_none_has_two_more() -> None:
    """Sizes may differ by one."""
    assert shares((0, 1), (2, 3)).is_final(range(2))
    assert shares((0, 1, 2), (3, 4), partitions=5).is_final(range(2))


@pytest.mark.parametrize(
    "of",
    [
        ((0, 1), (2,)),  # one is with nobody
        ((0, 1), (1, 2, 3)),  # one is with both
        ((0, 1), (1, 2)),  # as many as there are, but not all
        ((0, 1, 2), (3,)),  # unequal
        ((0, 1, 2, 3),),  # one has not told yet
        ((0, 1, 2, 3), ()),
    ],
)
def test_shares_that_are_not_final(of: tuple[tuple[int, ...], ...]) -> None:
    """Each for another reason."""
    assert not shares(*of).is_final(range(2))


def test_members_that_left_do_not_count() -> None:
    """Neither what they had nor when they told of it; nobody is left with nothing to do."""
    found = shares((0, 1, 2, 3), (2, 3))
    assert not found.is_final({0, 1})
    assert found.is_final({0})
    assert found.changed_ns({0}) == 10
    assert found.is_final(())
    assert found.changed_ns(()) == 0


def test_the_last_change_counts() -> None:
    """Of any of the members."""
    found = shares((0, 1), (2, 3))
    assert found.changed_ns(range(2)) == 20
    found.told(0, (), 30)
    assert not found.is_final(range(2))
    found.told(0, (1, 0), 40)
    assert found.is_final(range(2))
    assert found.changed_ns(range(2)) == 40
    assert found.changed_ns({1}) == 20
