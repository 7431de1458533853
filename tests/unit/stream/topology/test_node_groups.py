"""Groups of connected nodes."""

from __future__ import annotations

from headrace.stream.topology.node_groups import NodeGroups


def test_groups_are_numbered_by_their_first_nodes() -> None:
    """Uniting two groups frees the number of the second."""
    groups = NodeGroups()
    for name in "abcd":
        groups.add(name)
    groups.unite("b", ["d"])
    assert groups.numbered() == {0: ["a"], 1: ["b", "d"], 2: ["c"]}
    groups.unite("d", ["a"])
    assert groups.numbered() == {0: ["a", "b", "d"], 1: ["c"]}
