"""Names of processes that end with them."""

from headrace.runtime.incarnation import Deaths, incarnation_of

FIRST = incarnation_of(b"machine 1", b"process 1")


def test_incarnation_is_unique_per_process() -> None:
    names = {FIRST, incarnation_of(b"machine 1", b"process 2"), incarnation_of(b"machine 2", b"process 1")}
    assert len(names) == 3
    assert {len(name) for name in names} == {16}
    assert incarnation_of(b"machine 1", b"process 1") == FIRST


def test_death_matches_its_process_alone() -> None:
    """Or all processes of a machine, but none with swapped parts in its name."""
    assert Deaths.of(processes={b"process 1"}).covers(FIRST)
    assert not Deaths.of(processes={b"process 2"}).covers(FIRST)
    assert Deaths.of(machines={b"machine 1"}).covers(FIRST)
    assert not Deaths.of(machines={b"machine 2"}, processes={b"process 2"}).covers(FIRST)
    assert not Deaths.of(machines={b"process 1"}, processes={b"machine 1"}).covers(FIRST)
    assert not Deaths().covers(FIRST)
    assert not Deaths()
