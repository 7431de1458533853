"""Overdue requests, and those that fail because leadership has moved."""

from headrace.clients.cluster.metadata import ClusterView
from headrace.clients.cluster.network import Address
from headrace.clients.cluster.silence import SILENT_TICKS, TICK_MS, ExpectedLeader, Pending, Silence
from producer_rig import TOPIC_ID, view_of

HERE = Address("h0", 1)


def pending(*leaders: ExpectedLeader, node_id: int = 0) -> Pending:
    return Pending(node_id, HERE, lambda: leaders, lambda _error: None)


def stake(partition: int = 0, epoch: int = 0) -> ExpectedLeader:
    return ExpectedLeader("t", TOPIC_ID, partition, epoch)


def silent(*asked: Pending) -> Silence:
    """All of these are overdue."""
    silence = Silence()
    for each in asked:
        silence.started(each, 0)
    for _ in range(SILENT_TICKS + 1):
        silence.tick()
    return silence


def test_request_is_overdue_after_whole_ticks() -> None:
    """The current tick does not count; `wait_ms` is added."""
    silence, plain, patient = Silence(), pending(), pending()
    silence.started(plain, 0)
    assert [silence.tick() for _ in range(SILENT_TICKS)] == [frozenset()] * SILENT_TICKS
    assert silence.tick() == {HERE}
    assert silence.ended(plain)
    assert not silence.ended(plain), "the request has ended"
    silence.started(patient, 3 * TICK_MS - 1)
    assert not any(silence.tick() for _ in range(SILENT_TICKS + 3))
    assert silence.tick() == {HERE}
    assert silence.is_waiting_for(HERE)
    assert not silence.is_waiting_for(Address("h1", 1))


def test_request_is_obsolete_when_all_its_partitions_have_newer_leaders() -> None:
    """One of two, another leader in the same epoch, or the same leader in a newer one do not suffice."""
    both = pending(stake(0), stake(1))
    silence = silent(both)
    assert silence.obsolete(view_of(0, 0)) == []
    assert silence.obsolete(view_of(0, 0, epoch=1)) == [], "the same node leads"
    assert silence.obsolete(view_of(1, 1)) == [], "the old leader is the silent node"
    assert silence.obsolete(view_of(0, 1, epoch=1)) == [], "the first could be appended twice"
    assert silence.obsolete(view_of(1, 2, epoch=1)) == [both]
    assert silence.obsolete(view_of(-1, -1, epoch=1)) == [both], "no leader"
    assert silence.obsolete(view_of(1, epoch=1)) == [], "the second partition is unknown"


def test_request_to_a_node_that_left_is_obsolete() -> None:
    """With any partitions; a request without partitions to a live node is not."""
    gone, there = pending(stake(), node_id=9), pending()
    assert silent(gone, there).obsolete(view_of(0)) == [gone]


def test_recreated_topic_counts_as_moved() -> None:
    """By its id; an unknown topic does not."""
    old = pending(ExpectedLeader("t", b"o" * 16, 5, 7))
    unknown = pending(ExpectedLeader("u", TOPIC_ID, 0, 0))
    assert silent(old, unknown).obsolete(view_of(0)) == [old]


def test_request_that_is_not_overdue_stays() -> None:
    """Even with another leader: its response may be a success, and a retry would duplicate the records."""
    silence, early = Silence(), pending(stake())
    silence.started(early, 0)
    silence.tick()
    assert silence.obsolete(view_of(1, epoch=1)) == []
    assert silence.obsolete(ClusterView()) == []
