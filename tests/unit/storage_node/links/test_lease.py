"""A lease holds from a heartbeat that was heard, once the metadata of then is applied."""

from __future__ import annotations

from headrace.storage_node.links.lease import Lease


def new(learned: int) -> Lease:
    lease = Lease()
    lease.length_ms = 500
    lease.learned(learned)
    return lease


def test_nothing_holds_before_a_heartbeat_was_heard() -> None:
    """However early it is."""
    lease = new(learned=100)
    assert not lease.holds(0)


def test_it_holds_until_its_time() -> None:
    """That is no part of it; a later answer to an earlier heartbeat takes nothing away."""
    lease = new(learned=70)
    lease.granted(1_000, 70)
    assert lease.holds(1_499)
    assert not lease.holds(1_500)
    lease.granted(900, 60)
    assert lease.holds(1_499)


def test_it_waits_for_the_metadata() -> None:
    """Of each heartbeat: what was decided before it may have taken the leadership away."""
    lease = new(learned=70)
    for number in range(3):
        lease.granted(1_000 + 100 * number, 71 + number)
    assert not lease.holds(0)
    lease.learned(72)
    assert lease.holds(1_599)
    assert not lease.holds(1_600)
    lease.learned(80)
    assert lease.holds(1_699)


def test_it_keeps_no_more_than_it_may() -> None:
    """A node that never gets on with its metadata forgets the oldest."""
    lease = new(learned=-1)
    for number in range(1_000):
        lease.granted(number, number)
    lease.learned(899)
    assert not lease.holds(0)
    lease.learned(900)
    assert lease.holds(1_399)
