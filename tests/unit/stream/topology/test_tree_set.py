"""The tree keeps Java's order."""

from __future__ import annotations

from headrace.stream.topology.tree_set import TreeSet
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers()))
def test_a_steady_comparator_sorts(numbers: list[int]) -> None:
    """Distinct elements in ascending order."""
    tree: TreeSet[list[int]] = TreeSet(lambda one, other: one < other)
    elements = {number: [number] for number in numbers}
    for number in numbers:
        tree.add(elements[number])
    assert [element[0] for element in tree] == sorted(elements)


def test_the_order_of_a_growing_comparator_depends_on_the_shape() -> None:
    """Elements that grow after their insertion stay where they are; the root of three is the middle one."""
    tree: TreeSet[list[int]] = TreeSet(lambda one, other: one > other)
    first, second, third, fourth = [1], [2], [3], [9]
    for element in (first, second, third):
        tree.add(element)
    assert list(tree) == [[3], [2], [1]]
    second[0] = 10
    tree.add(fourth)
    assert list(tree) == [[3], [10], [9], [1]]
