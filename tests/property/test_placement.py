"""The invariants of placement over random clusters."""

from collections import Counter

from headrace.controller.state.placement import UsableNode, place
from hypothesis import given
from hypothesis import strategies as st

RACKS = st.sampled_from(["a", "b", "c", None])


@st.composite
def clusters(draw, racks=RACKS):
    ids = draw(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True))
    return [UsableNode(node_id, draw(racks)) for node_id in ids]


def _spread(counts: Counter, nodes) -> int:
    values = [counts[node.node_id] for node in nodes]
    return max(values) - min(values)


@given(clusters(), st.integers(1, 40), st.integers(0, 99), st.data())
def test_leaders_replicas_and_racks_are_spread(nodes, count, start, data) -> None:
    """Preferred leaders differ by one at most; replicas are on distinct nodes and as many racks as
    possible."""
    factor = data.draw(st.integers(1, len(nodes)))
    placed = place(count, factor, nodes, start)
    rack_of = {node.node_id: node.rack for node in nodes}
    rack_count = len(set(rack_of.values()))
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= rack_of.keys()
        assert len({rack_of[node_id] for node_id in replicas}) == min(factor, rack_count)
    assert _spread(Counter(replicas[0] for replicas in placed), nodes) <= 1


@given(clusters(racks=st.just(None)), st.integers(1, 40), st.integers(0, 99), st.data())
def test_replicas_are_even_without_racks(nodes, count, start, data) -> None:
    """Without racks all replicas are spread evenly, not only the leaders."""
    factor = data.draw(st.integers(1, len(nodes)))
    placed = place(count, factor, nodes, start)
    assert _spread(Counter(node_id for replicas in placed for node_id in replicas), nodes) <= 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 40), st.integers(0, 99), st.data())
def test_replicas_are_nearly_even_over_equal_racks(racks, size, count, start, data) -> None:
    """With racks of equal size the difference is at most one more."""
    nodes = [UsableNode(rack * 10 + i, f"r{rack}") for rack in range(racks) for i in range(size)]
    factor = data.draw(st.integers(1, racks))
    placed = place(count, factor, nodes, start)
    assert _spread(Counter(node_id for replicas in placed for node_id in replicas), nodes) <= 2


@given(clusters(), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_growth_keeps_leaders_even(nodes, first, more, start) -> None:
    """A topic that grows is as even as one created at once."""
    placed = place(first, 1, nodes, start)
    placed += place(more, 1, nodes, start + 1, existing=placed)
    assert _spread(Counter(replicas[0] for replicas in placed), nodes) <= 1


@given(clusters(), st.integers(1, 20), st.integers(0, 99))
def test_placement_is_deterministic(nodes, count, start) -> None:
    """The order in which nodes are listed does not matter."""
    assert place(count, 1, nodes, start) == place(count, 1, list(reversed(nodes)), start)


@given(clusters(racks=st.just(None)), st.integers(1, 20), st.integers(0, 99), st.data())
def test_fenced_nodes_lead_nothing_and_fill_only_gaps(nodes, count, start, data) -> None:
    """Fenced nodes are followers, and only where there are too few others."""
    fenced = data.draw(
        st.sets(st.sampled_from(sorted(node.node_id for node in nodes)), max_size=len(nodes) - 1)
    )
    nodes = [node._replace(is_fenced=node.node_id in fenced) for node in nodes]
    factor = data.draw(st.integers(1, len(nodes)))
    for replicas in place(count, factor, nodes, start):
        assert len(set(replicas)) == factor
        assert replicas[0] not in fenced
        active = [node_id for node_id in replicas if node_id not in fenced]
        assert len(active) == min(factor, len(nodes) - len(fenced))
