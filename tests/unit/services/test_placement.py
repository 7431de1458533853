"""The machine of each server stays the same while machines join and leave."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.placement import check_new, pins_of, without_machine

SERVERS = {"controller-1": 0, "node-1": 1, "node-2": 2, "node-3": 3, "node-4": 4}
THREE = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_servers_are_pinned_to_the_machine_of_their_disk() -> None:
    """A new machine moves none; several machines share; a resource of one's own has priority."""
    assert set(pins_of(SERVERS, {}, ["10.0.0.1"], None).values()) == {"node:10.0.0.1"}
    tied = pins_of(SERVERS, {}, THREE, None)
    assert list(tied.values()) == [f"node:10.0.0.{n}" for n in (1, 1, 2, 3, 1)]
    assert list(pins_of(SERVERS, {}, THREE, "disk").values()) == [f"disk-{n}" for n in range(5)]


def test_absent_machine_moves_no_server() -> None:
    """node-3 must not start on the machine of node-1, without its data, because node-2's is absent."""
    before = pins_of({"node-1": 1, "node-2": 2, "node-3": 3}, {}, THREE, None)
    again = pins_of(SERVERS, before, [THREE[0], THREE[2]], None)
    assert {name: again[name] for name in before} == before
    assert again["node-4"] == "node:10.0.0.3"


def test_server_of_an_absent_machine_waits_and_a_new_one_is_refused() -> None:
    """The first has a disk, the second has none anywhere; the error names the remedy."""
    pins = {"node-1": "disk-1", "node-2": "disk-2"}
    assert without_machine(pins, {"CPU", "disk-1"}) == {"node-2": "disk-2"}
    check_new(pins, {"node-1", "node-2"}, {"CPU", "disk-1"})
    check_new(pins, {}, {"disk-1", "disk-2"})
    with pytest.raises(ConfigError, match=r'node-2 needs .*"disk-2": 1'):
        check_new(pins, {"node-1"}, {"CPU", "disk-1"})
