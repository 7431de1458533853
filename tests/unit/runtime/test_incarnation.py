"""Names of processes that end with them."""

from __future__ import annotations

from headrace.runtime.incarnation import Deaths, incarnation_of

FIRST = incarnation_of(b"machine 1", b"process 1")


def test_a_name_is_of_one_process_on_one_machine() -> None:
    """Started anew, or elsewhere, it is another one."""
    names = {FIRST, incarnation_of(b"machine 1", b"process 2"), incarnation_of(b"machine 2", b"process 1")}
    assert len(names) == 3
    assert {len(name) for name in names} == {16}
    assert incarnation_of(b"machine 1", b"process 1") == FIRST


def test_a_death_means_that_process_alone() -> None:
    """Or all of a machine; and never one whose parts are named the other way round."""
    assert Deaths.of(processes={b"process 1"}).covers(FIRST)
    assert not Deaths.of(processes={b"process 2"}).covers(FIRST)
    assert Deaths.of(machines={b"machine 1"}).covers(FIRST)
    assert not Deaths.of(machines={b"machine 2"}, processes={b"process 2"}).covers(FIRST)
    assert not Deaths.of(machines={b"process 1"}, processes={b"machine 1"}).covers(FIRST)
    assert not Deaths().covers(FIRST)
    assert not Deaths()
