"""Who leads a partition: each reason for an election is a named strategy. Pure.

A strategy looks at one ballot (the replicas in their order, the ISR and ELR as they shall be, who leads now
and which nodes may lead) and names the leader. What all keep: who is named may lead; who is named by a clean
election has every record that was acknowledged, because it is in the ISR, or in the ELR while the ISR is
empty; among equals the order of the assigned replicas decides; a leader that may go on leading is not
replaced, except to bring the preferred one back.
Source: Kafka PartitionChangeBuilder.java, KIP-966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Set


class Ballot(NamedTuple):
    """What an election looks at."""

    replicas: tuple[int, ...]  # in order of preference
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    candidates: Set[int]  # the nodes that may lead: active, and with the partition's disk in order
    last_leader: int = NO_NODE  # whom to take when ISR and ELR are empty; -1 if nobody may be taken so
    avoided: Set[int] = frozenset()  # who shall lead only if nobody else may: their disk is full


class Elected(NamedTuple):
    """The outcome. `is_clean` says that the leader has every record that was acknowledged."""

    leader: int
    is_clean: bool


NOBODY = Elected(NO_NODE, is_clean=True)


def offline(ballot: Ballot) -> Elected:
    """Somebody must lead: who leads already, else the first replica of the ISR, else of the ELR (only while
    the ISR is empty), else the last known leader (only while both are empty). Who has no room comes last."""
    if _may_lead(ballot, ballot.leader):
        return Elected(ballot.leader, is_clean=True)
    for node_id in sorted(ballot.replicas, key=lambda replica: replica in ballot.avoided):
        if _may_lead(ballot, node_id):
            return Elected(node_id, is_clean=True)
    return _last_known(ballot)


def preferred(ballot: Ballot) -> Elected:
    """The first assigned replica shall lead, if it may and can; else as `offline`."""
    first = ballot.replicas[0]
    is_fit = _may_lead(ballot, first) and first not in ballot.avoided
    return Elected(first, is_clean=True) if is_fit else offline(ballot)


def reassignment(ballot: Ballot) -> Elected:
    """The replicas changed: who leads stays if it is one of them, else the first of them that may lead."""
    if ballot.leader not in ballot.replicas:
        ballot = ballot._replace(leader=NO_NODE)
    return offline(ballot)


def controlled_shutdown(ballot: Ballot) -> Elected:
    """The leader is on its way out: the next one in order, never by a guess. While nobody can take over,
    nobody leads; what was acknowledged waits with those that have it."""
    return offline(ballot._replace(last_leader=NO_NODE))


def drain(ballot: Ballot) -> Elected:
    """The leader is asked to hand over but goes on running: it keeps what nobody else may lead."""
    heir = controlled_shutdown(ballot)
    return Elected(ballot.leader, is_clean=True) if heir.leader == NO_NODE else heir


def unclean(ballot: Ballot) -> Elected:
    """As `offline`, but rather lose records than stay without a leader: then any replica that may lead."""
    elected = offline(ballot)
    if elected.leader != NO_NODE:
        return elected
    for node_id in ballot.replicas:
        if node_id in ballot.candidates:
            return Elected(node_id, is_clean=False)
    return NOBODY


STRATEGIES: dict[str, Callable[[Ballot], Elected]] = {
    "offline": offline,
    "preferred": preferred,
    "reassignment": reassignment,
    "controlled-shutdown": controlled_shutdown,
    "drain": drain,
    "unclean": unclean,
}


def _may_lead(ballot: Ballot, node_id: int) -> bool:
    safe = ballot.isr or ballot.elr
    return node_id in safe and node_id in ballot.candidates


def _last_known(ballot: Ballot) -> Elected:
    if ballot.isr or ballot.elr or ballot.last_leader not in ballot.candidates:
        return NOBODY
    return Elected(ballot.last_leader, is_clean=False)
