"""A lease holds from an answered heartbeat on, once the metadata of the response is applied."""

from headrace.storage_node.links.lease import Lease


def new(learned: int) -> Lease:
    lease = Lease()
    lease.length_ms = 500
    lease.applied(learned)
    return lease


def test_no_lease_before_the_first_heartbeat() -> None:
    lease = new(learned=100)
    assert not lease.holds(0)


def test_a_lease_expires() -> None:
    """The end is exclusive; a later response to an earlier heartbeat does not shorten the lease."""
    lease = new(learned=70)
    lease.granted(1_000, 70)
    assert lease.holds(1_499)
    assert not lease.holds(1_500)
    lease.granted(900, 60)
    assert lease.holds(1_499)


def test_a_lease_waits_for_the_metadata() -> None:
    """Of each heartbeat: a decision before it may have moved the leadership."""
    lease = new(learned=70)
    for number in range(3):
        lease.granted(1_000 + 100 * number, 71 + number)
    assert not lease.holds(0)
    lease.applied(72)
    assert lease.holds(1_599)
    assert not lease.holds(1_600)
    lease.applied(80)
    assert lease.holds(1_699)


def test_waiting_grants_are_bounded() -> None:
    """A node that does not apply metadata drops the oldest."""
    lease = new(learned=-1)
    for number in range(1_000):
        lease.granted(number, number)
    lease.applied(899)
    assert not lease.holds(0)
    lease.applied(900)
    assert lease.holds(1_399)
