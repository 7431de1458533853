"""What one partition becomes: from the ISR and replicas that it shall have to the record of the change. Pure.

The order is Kafka's: a reassignment that can complete does; the ELR takes up who leaves the ISR; a leader is
elected by a named strategy; ISR, ELR and the last known leader follow from who was elected. Invariants of the
outcome: see `check_partition`.
Source: Kafka PartitionChangeBuilder.java, PartitionReassignmentReplicas.java, KIP-455, KIP-966.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.image import RECOVERED, RECOVERING
from ...protocol.metadata.records import PartitionChangeRecord
from ...protocol.model import NO_NODE, effective_min_isr
from .elections import Ballot, Elected, offline

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ...protocol.metadata.image import PartitionRegistration

Nodes = tuple[int, ...]


class Rules(NamedTuple):
    """What holds for a partition while it is changed."""

    candidates: Set[int]  # the nodes that may lead it
    min_isr: int = 1  # min.insync.replicas; more than the partition's replicas count as all of them
    is_last_leader_allowed: bool = True  # unclean.recovery.strategy=Balanced
    avoided: Set[int] = frozenset()  # the nodes whose disk is full


class Wish(NamedTuple):
    """What shall change. None leaves a fact as it is."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    adding: Nodes | None = None
    removing: Nodes | None = None
    recovery_state: int | None = None
    lossy: frozenset[int] = frozenset()  # replicas that may have lost records: never in the ELR
    elect: Callable[[Ballot], Elected] = offline


@dataclass(slots=True)
class _Target:
    """The partition under construction; each step changes it in place."""

    isr: Nodes
    replicas: Nodes
    adding: Nodes
    removing: Nodes
    elr: Nodes
    last_known: Nodes
    recovery_state: int
    leader: int


def change_partition(
    topic_id: bytes, number: int, partition: PartitionRegistration, wish: Wish, rules: Rules
) -> PartitionChangeRecord | None:
    """The record that brings what is wished, with everything that follows from it; None if nothing
    changes."""
    target = _wished(partition, wish)
    _complete(target)
    _set_elr(partition, target, wish, rules)
    _elect(partition, target, wish, rules)
    _remember_leader(partition, target)
    return _record(topic_id, number, partition, target)


def completed_isr(isr: Nodes, replicas: Nodes, removing: Nodes) -> Nodes | None:
    """The ISR after a reassignment, or None while a replica of its target is not in sync."""
    kept = tuple(node for node in isr if node not in removing)
    wanted = [node for node in replicas if node not in removing]
    return kept if wanted and all(node in kept for node in wanted) else None


def check_partition(partition: PartitionRegistration) -> None:
    """Assert the laws of one partition, as far as it alone shows them."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    assert len(replicas) == len(partition.replicas) > 0, "replicas are distinct nodes"
    assert len(isr) == len(partition.isr), "ISR members are distinct"
    assert isr <= replicas, "the ISR is part of the replicas"
    assert elr <= replicas, "the ELR is part of the replicas"
    assert not isr & elr, "a node is in the ISR or in the ELR, not in both"
    assert set(partition.last_known_elr) <= replicas, "the last leader is a replica"
    assert set(partition.adding_replicas) <= replicas, "what is added is held already"
    assert set(partition.removing_replicas) <= replicas, "what is removed is still held"
    assert not set(partition.adding_replicas) & set(partition.removing_replicas)
    assert set(partition.removing_replicas) < replicas, "a reassignment leaves somebody"
    assert isr or elr or partition.last_known_elr, "somebody is known to have been in sync"
    if partition.leader != NO_NODE:
        assert partition.leader in isr, "the leader is in sync with itself"
        assert not partition.last_known_elr, "the last leader is of interest only while there is none"
    assert partition.leader_recovery_state in (RECOVERED, RECOVERING)


def _wished(partition: PartitionRegistration, wish: Wish) -> _Target:
    return _Target(
        isr=_or(wish.isr, partition.isr),
        replicas=_or(wish.replicas, partition.replicas),
        adding=_or(wish.adding, partition.adding_replicas),
        removing=_or(wish.removing, partition.removing_replicas),
        elr=partition.elr,
        last_known=partition.last_known_elr,
        recovery_state=(
            partition.leader_recovery_state if wish.recovery_state is None else wish.recovery_state
        ),
        leader=partition.leader,
    )


def _or(wished: Nodes | None, current: Nodes) -> Nodes:
    return current if wished is None else wished


def _complete(target: _Target) -> None:
    """The reassignment completes in the same step in which the last replica of its target is in sync."""
    if not target.adding and not target.removing:
        return
    isr = completed_isr(target.isr, target.replicas, target.removing)
    if isr is not None:
        target.replicas = tuple(node for node in target.replicas if node not in target.removing)
        target.isr, target.adding, target.removing = isr, (), ()


def _set_elr(partition: PartitionRegistration, target: _Target, wish: Wish, rules: Rules) -> None:
    """While the ISR is below min ISR the high watermark stands still, so who was in it at that point has
    every record that was acknowledged, and stays eligible; from min ISR on only the ISR has."""
    if len(target.isr) >= effective_min_isr(rules.min_isr, len(target.replicas)):
        target.elr = ()
        return
    known = {*partition.elr, *partition.isr}.intersection(target.replicas)
    target.elr = tuple(sorted(known.difference(target.isr, wish.lossy)))


def _elect(partition: PartitionRegistration, target: _Target, wish: Wish, rules: Rules) -> None:
    last = partition.last_known_elr if rules.is_last_leader_allowed else ()
    last_leader = last[0] if len(last) == 1 and last[0] in target.replicas else NO_NODE
    ballot = Ballot(
        target.replicas,
        target.isr,
        target.elr,
        partition.leader,
        rules.candidates,
        last_leader,
        rules.avoided,
    )
    target.leader, is_clean = wish.elect(ballot)
    if target.leader == NO_NODE or target.leader in target.isr:
        return
    target.isr = (target.leader,)
    if is_clean:
        # The new ISR may reach min ISR at once, and then the ELR is over; or it is smaller than the wished
        # one.
        _set_elr(partition, target, wish, rules)
    else:
        target.elr, target.recovery_state = (), RECOVERING


def _remember_leader(partition: PartitionRegistration, target: _Target) -> None:
    """Who led last is remembered from the moment the ISR is empty until somebody leads again."""
    if target.leader != NO_NODE:
        target.last_known = ()
        return
    target.last_known = tuple(node for node in target.last_known if node in target.replicas)
    if target.isr or target.last_known:
        return
    # A partition that lost its leader while its last ISR member stayed in the ISR: an older log has such.
    last = partition.leader if partition.leader != NO_NODE or len(partition.isr) != 1 else partition.isr[0]
    target.last_known = (last,) if last in target.replicas else ()


def _record(
    topic_id: bytes, number: int, partition: PartitionRegistration, target: _Target
) -> PartitionChangeRecord | None:
    # A replica that goes must learn that its part is over even if the leader stays: the leader epoch rises.
    is_bumped = target.leader != partition.leader or not set(partition.replicas) <= set(target.replicas)
    record = PartitionChangeRecord(
        topic_id=topic_id,
        partition=number,
        leader=target.leader if is_bumped else None,
        isr=_changed(tuple(sorted(target.isr)), partition.isr),
        replicas=_changed(target.replicas, partition.replicas),
        adding_replicas=_changed(target.adding, partition.adding_replicas),
        removing_replicas=_changed(target.removing, partition.removing_replicas),
        elr=_changed(target.elr, partition.elr),
        last_known_elr=_changed(target.last_known, partition.last_known_elr),
        leader_recovery_state=(
            None if target.recovery_state == partition.leader_recovery_state else target.recovery_state
        ),
    )
    return None if record == PartitionChangeRecord(topic_id, number) else record


def _changed(new: Nodes, old: Nodes) -> Nodes | None:
    return None if new == old else new
