"""Election strategies: each reason for an election has one, by name. Pure.

A strategy gets a ballot (the assigned replicas, target ISR and ELR, the leader and the candidates) and
returns the leader. All keep these rules: the elected node is a candidate; in a clean election it has every
acknowledged record, because it is in the ISR, or in the ELR while the ISR is empty; otherwise the order of
the assigned replicas decides; a leader that may go on leading is kept, except for its preferred leader.
Source: Kafka PartitionChangeBuilder.java, KIP-966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Set


class Ballot(NamedTuple):
    """The input of an election."""

    replicas: tuple[int, ...]  # in order of preference
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    candidates: Set[int]  # the nodes that may lead: active, with the replica's log dir online
    last_leader: int = NO_NODE  # the last known leader, if it may lead with ISR and ELR empty; else -1
    avoided: Set[int] = frozenset()  # replicas without free space: elected last
    chosen: int = NO_NODE  # the replica that an operator chose


class Elected(NamedTuple):
    """The outcome. `is_clean`: the leader has every acknowledged record."""

    leader: int
    is_clean: bool


NO_LEADER = Elected(NO_NODE, is_clean=True)


def offline(ballot: Ballot) -> Elected:
    """The current leader, else the first replica of the ISR, else of the ELR (while the ISR is empty), else
    the last known leader (while both are empty). Replicas without free space come last."""
    if _may_lead(ballot, ballot.leader):
        return Elected(ballot.leader, is_clean=True)
    for node_id in sorted(ballot.replicas, key=lambda replica: replica in ballot.avoided):
        if _may_lead(ballot, node_id):
            return Elected(node_id, is_clean=True)
    return _last_known(ballot)


def preferred(ballot: Ballot) -> Elected:
    """The first assigned replica, if it may lead; else as `offline`."""
    first = ballot.replicas[0]
    is_fit = _may_lead(ballot, first) and first not in ballot.avoided
    return Elected(first, is_clean=True) if is_fit else offline(ballot)


def reassignment(ballot: Ballot) -> Elected:
    """The current leader if it is one of the new replicas, else the first of them that may lead."""
    if ballot.leader not in ballot.replicas:
        ballot = ballot._replace(leader=NO_NODE)
    return offline(ballot)


def controlled_shutdown(ballot: Ballot) -> Elected:
    """The leader shuts down: as `offline`, without the last known leader. Without a successor the partition
    has no leader; acknowledged records stay on the replicas that have them."""
    return offline(ballot._replace(last_leader=NO_NODE))


def drain(ballot: Ballot) -> Elected:
    """The leader is drained but goes on running: it stays leader where there is no successor."""
    successor = controlled_shutdown(ballot)
    return Elected(ballot.leader, is_clean=True) if successor.leader == NO_NODE else successor


def unclean(ballot: Ballot) -> Elected:
    """As `offline`; without a result any candidate, which may lose acknowledged records."""
    elected = offline(ballot)
    if elected.leader != NO_NODE:
        return elected
    for node_id in ballot.replicas:
        if node_id in ballot.candidates:
            return Elected(node_id, is_clean=False)
    return NO_LEADER


def unclean_chosen(ballot: Ballot) -> Elected:
    """The replica that an operator chose, in sync or not, and no other one."""
    if ballot.chosen not in ballot.replicas or ballot.chosen not in ballot.candidates:
        return NO_LEADER
    return Elected(ballot.chosen, is_clean=_may_lead(ballot, ballot.chosen))


STRATEGIES: dict[str, Callable[[Ballot], Elected]] = {
    "offline": offline,
    "preferred": preferred,
    "reassignment": reassignment,
    "controlled-shutdown": controlled_shutdown,
    "drain": drain,
    "unclean": unclean,
    "unclean-chosen": unclean_chosen,
}


def _may_lead(ballot: Ballot, node_id: int) -> bool:
    safe = ballot.isr or ballot.elr
    return node_id in safe and node_id in ballot.candidates


def _last_known(ballot: Ballot) -> Elected:
    if ballot.isr or ballot.elr or ballot.last_leader not in ballot.candidates:
        return NO_LEADER
    return Elected(ballot.last_leader, is_clean=False)
