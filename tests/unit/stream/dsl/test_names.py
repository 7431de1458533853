"""Names of nodes: numbers are used up as in Java."""

from __future__ import annotations

import pytest
from headrace.stream.dsl.names import Names, checked
from headrace.stream.topology.errors import TopologyError


def test_named_operators_use_up_a_number() -> None:
    """Giving one operator a name does not rename those after it."""
    names = Names()
    assert names.given_or(None, "KSTREAM-MAP-") == "KSTREAM-MAP-0000000000"
    assert names.given_or("mine", "KSTREAM-MAP-") == "mine"
    assert names.suffixed_or("mine", "-sink", "KSTREAM-SINK-") == "mine-sink"
    assert names.suffixed_or(None, "-sink", "KSTREAM-SINK-") == "KSTREAM-SINK-0000000003"
    assert names.store("KSTREAM-REDUCE-") == "KSTREAM-REDUCE-STATE-STORE-0000000004"


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250])
def test_names_that_cannot_be_part_of_a_topic_are_refused(name: str) -> None:
    """Names of nodes become names of repartition topics."""
    with pytest.raises(TopologyError):
        checked(name)
