"""Which connections are closed because of an unfinished message, and which are not."""

from typing import Any

import pytest
import zmq
from headrace.protocol.transport.peers import MIB, Peer, PeerTable, RouterLimits
from headrace.protocol.transport.unfinished_io import MAX_LOOKS, SLACK_BYTES, UnfinishedMessages

LIMITS = RouterLimits(max_request_bytes=10 * MIB, max_queued_bytes=50 * MIB)
MOST = LIMITS.max_request_bytes + SLACK_BYTES


class Rig:
    """A router's peers, the bytes that each has sent, and whether complete messages wait to be taken."""

    def __init__(self, count: int = 2) -> None:
        self.table = PeerTable(10_000)
        self.peers = [Peer(number.to_bytes(2), 1, descriptor=number) for number in range(count)]
        for peer in self.peers:
            self.table.admit(peer)
        self.sent = dict.fromkeys(range(count), 0)
        self.messages, self.is_drained = 0, True
        self.looks = 0
        handshakes: Any = ()
        self.unfinished = UnfinishedMessages(self, self.table, handshakes, self, self.received_of)  # type: ignore[arg-type]

    def received_of(self, descriptor: int) -> int:
        self.looks += 1
        return self.sent[descriptor]

    def getsockopt(self, option: int) -> int:
        assert option == zmq.EVENTS
        return 0 if self.is_drained else zmq.POLLIN

    def take(self, number: int) -> None:
        """A message of a peer reaches the router."""
        self.peers[number].messages += 1
        self.messages += 1

    def look(self) -> list[Peer]:
        return [peer for peer, _ in self.unfinished.look(LIMITS)]


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    assert rig.look() == []
    return rig


def test_a_message_above_the_limit_ends_its_connection_only(rig: Rig) -> None:
    rig.sent = {0: MOST, 1: MOST + 1}
    assert rig.look() == [rig.peers[1]]


def test_a_peer_that_sends_many_complete_messages_stays(rig: Rig) -> None:
    """Any number of bytes, as long as its messages arrive; also if the last look was between two of them."""
    for _ in range(10):
        rig.sent[0] += MOST - 1
        assert rig.look() == []
        rig.take(0)
        assert rig.look() == []


def test_a_busy_router_waits_for_messages_that_it_has_not_taken(rig: Rig) -> None:
    """The connection may have complete ones. It has none when as many messages as there are connections were
    taken after its bytes exceeded the limit, and none of them was its own."""
    rig.is_drained = False
    rig.sent[0] = MOST + 1
    assert rig.look() == []
    rig.take(1)
    rig.take(1)
    assert rig.look() == []
    rig.take(1)
    assert rig.look() == [rig.peers[0]]


def test_a_message_that_arrives_at_last_ends_the_suspicion(rig: Rig) -> None:
    rig.is_drained = False
    rig.sent[0] = 2 * MOST
    assert rig.look() == []
    for number in (0, 1, 1, 1):
        rig.take(number)
    assert rig.look() == []
    rig.is_drained = True
    assert rig.look() == []


def test_the_largest_messages_end_if_all_together_are_too_large() -> None:
    """Each within its own limit."""
    rig = Rig(5)
    rig.look()
    rig.sent = {number: (9 + number) * MIB for number in range(5)}  # 55 MiB: within the slack
    assert rig.look() == []
    rig.sent = {number: (13 + number) * MIB for number in range(5)}  # 75 MiB
    assert rig.look() == [rig.peers[4]]
    assert rig.look() == []


def test_connections_are_looked_at_in_turns() -> None:
    rig = Rig(MAX_LOOKS + 10)
    rig.look()
    assert rig.looks == MAX_LOOKS
    rig.look()
    assert rig.looks == MAX_LOOKS + 10
    rig.sent[MAX_LOOKS + 5] = MOST + 1
    rig.look()
    assert rig.look() == [rig.peers[MAX_LOOKS + 5]]


def test_connections_that_have_ended_are_forgotten(rig: Rig) -> None:
    rig.sent[0] = MOST + 1
    rig.table.forget(rig.peers[0])
    assert rig.look() == []
    rig.look()
    assert list(rig.unfinished._silent) == [rig.peers[1]]
