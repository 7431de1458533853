"""When the assignment of a group is complete."""

import pytest
from headrace.benchmarks.cells.assignments import Assignments


def assigned(*of: tuple[int, ...], partitions: int = 4) -> Assignments:
    """Members 0, 1, ... got these partitions, one after another."""
    found = Assignments(partitions)
    for member, parts in enumerate(of):
        found.changed(member, parts, 10 * (member + 1))
    return found


def test_complete_when_each_partition_has_one_member_and_sizes_differ_by_one() -> None:
    """Even or uneven."""
    assert assigned((0, 1), (2, 3)).is_complete(range(2))
    assert assigned((0, 1, 2), (3, 4), partitions=5).is_complete(range(2))


@pytest.mark.parametrize(
    "of",
    [
        ((0, 1), (2,)),  # an unassigned partition
        ((0, 1), (1, 2, 3)),  # a partition assigned twice
        ((0, 1), (1, 2)),  # both, with the right sum
        ((0, 1, 2), (3,)),  # uneven
        ((0, 1, 2, 3),),  # member 1 has reported nothing
        ((0, 1, 2, 3), ()),
    ],
)
def test_incomplete_assignments(of: tuple[tuple[int, ...], ...]) -> None:
    """Each for another reason."""
    assert not assigned(*of).is_complete(range(2))


def test_members_that_left_do_not_count() -> None:
    """Neither their partitions nor their changes; an empty group is complete."""
    found = assigned((0, 1, 2, 3), (2, 3))
    assert not found.is_complete({0, 1})
    assert found.is_complete({0})
    assert found.last_change_ns({0}) == 10
    assert found.is_complete(())
    assert found.last_change_ns(()) == 0


def test_last_change_of_any_member_counts() -> None:
    """A revocation is a change, too."""
    found = assigned((0, 1), (2, 3))
    assert found.last_change_ns(range(2)) == 20
    found.changed(0, (), 30)
    assert not found.is_complete(range(2))
    found.changed(0, (1, 0), 40)
    assert found.is_complete(range(2))
    assert found.last_change_ns(range(2)) == 40
    assert found.last_change_ns({1}) == 20
