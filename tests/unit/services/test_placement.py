"""Which machine each server belongs to, and that it stays so whatever machines come and go."""

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.placement import check_new, pins_of, without_machine

SERVERS = {"controller-1": 0, "node-1": 1, "node-2": 2, "node-3": 3, "node-4": 4}
THREE = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_servers_are_tied_to_their_disks() -> None:
    """One machine keeps its servers when another joins; several share; a resource of one's own wins."""
    assert set(pins_of(SERVERS, {}, ["10.0.0.1"], None).values()) == {"node:10.0.0.1"}
    tied = pins_of(SERVERS, {}, THREE, None)
    assert list(tied.values()) == [f"node:10.0.0.{n}" for n in (1, 1, 2, 3, 1)]
    assert list(pins_of(SERVERS, {}, THREE, "disk").values()) == [f"disk-{n}" for n in range(5)]


def test_a_machine_that_is_away_shifts_nobody() -> None:
    """node-3 must not be started on the machine of node-1, over no data, because node-2's is away."""
    before = pins_of({"node-1": 1, "node-2": 2, "node-3": 3}, {}, THREE, None)
    again = pins_of(SERVERS, before, [THREE[0], THREE[2]], None)
    assert {name: again[name] for name in before} == before
    assert again["node-4"] == "node:10.0.0.3"


def test_a_server_that_was_waits_and_a_new_one_is_refused() -> None:
    """The one has a disk somewhere, the other has none anywhere; the error says what to do."""
    pins = {"node-1": "disk-1", "node-2": "disk-2"}
    assert without_machine(pins, {"CPU", "disk-1"}) == {"node-2": "disk-2"}
    check_new(pins, {"node-1", "node-2"}, {"CPU", "disk-1"})
    check_new(pins, {}, {"disk-1", "disk-2"})
    with pytest.raises(ConfigError, match=r'node-2 needs .*"disk-2": 1'):
        check_new(pins, {"node-1"}, {"CPU", "disk-1"})
