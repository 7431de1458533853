"""Builds the record that changes one partition, from its target ISR and target replicas. Pure.

The steps are Kafka's: complete the reassignment if its target is in sync; keep replicas that leave an ISR
below min.insync.replicas in the ELR; elect a leader by a strategy; derive ISR, ELR and the last known leader
from the election. `check_partition` asserts the invariants of the result.
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
    """Conditions of a change that are not part of the partition's registration."""

    candidates: Set[int]  # the nodes that may lead it
    min_isr: int = 1  # min.insync.replicas, not bounded by the number of replicas
    is_last_leader_allowed: bool = True  # unclean.recovery.strategy=Balanced
    avoided: Set[int] = frozenset()  # nodes whose replica has no free space


class Target(NamedTuple):
    """The target of a change. None leaves a field as it is."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    adding: Nodes | None = None
    removing: Nodes | None = None
    recovery_state: int | None = None
    lossy: frozenset[int] = frozenset()  # replicas that may have lost records: they leave the ELR
    elect: Callable[[Ballot], Elected] = offline
    chosen: int = NO_NODE  # by an operator, for `unclean_chosen`


@dataclass(slots=True)
class _Draft:
    """The partition while it is changed, in place, by the steps."""

    isr: Nodes
    replicas: Nodes
    adding: Nodes
    removing: Nodes
    elr: Nodes
    last_known: Nodes
    recovery_state: int
    leader: int


def change_partition(
    topic_id: bytes, number: int, partition: PartitionRegistration, target: Target, rules: Rules
) -> PartitionChangeRecord | None:
    """The record that brings the partition to `target`, with all derived fields; None if nothing changes."""
    draft = _draft(partition, target)
    _complete(draft)
    _set_elr(partition, draft, target, rules)
    _elect(partition, draft, target, rules)
    _remember_leader(partition, draft)
    return _record(topic_id, number, partition, draft)


def completed_isr(isr: Nodes, replicas: Nodes, removing: Nodes) -> Nodes | None:
    """The ISR after a reassignment, or None while a replica of its target is not in sync."""
    kept = tuple(node for node in isr if node not in removing)
    target = [node for node in replicas if node not in removing]
    return kept if target and all(node in kept for node in target) else None


def check_partition(partition: PartitionRegistration) -> None:
    """Assert the invariants of one partition that need nothing else of the image."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    assert len(replicas) == len(partition.replicas) > 0, "replicas are distinct nodes"
    assert len(isr) == len(partition.isr), "ISR members are distinct"
    assert isr <= replicas, "the ISR is part of the replicas"
    assert elr <= replicas, "the ELR is part of the replicas"
    assert not isr & elr, "a node is in the ISR or in the ELR, not in both"
    assert set(partition.last_known_elr) <= replicas, "the last known leader is a replica"
    assert set(partition.adding_replicas) <= replicas, "adding replicas are replicas"
    assert set(partition.removing_replicas) <= replicas, "removing replicas are replicas"
    assert not set(partition.adding_replicas) & set(partition.removing_replicas)
    assert set(partition.removing_replicas) < replicas, "a reassignment keeps at least one replica"
    assert isr or elr or partition.last_known_elr, "ISR, ELR or last known leader is not empty"
    if partition.leader != NO_NODE:
        assert partition.leader in isr, "the leader is in the ISR"
        assert not partition.last_known_elr, "a partition with a leader has no last known leader"
    assert partition.leader_recovery_state in (RECOVERED, RECOVERING)


def _draft(partition: PartitionRegistration, target: Target) -> _Draft:
    return _Draft(
        isr=_or(target.isr, partition.isr),
        replicas=_or(target.replicas, partition.replicas),
        adding=_or(target.adding, partition.adding_replicas),
        removing=_or(target.removing, partition.removing_replicas),
        elr=partition.elr,
        last_known=partition.last_known_elr,
        recovery_state=(
            partition.leader_recovery_state if target.recovery_state is None else target.recovery_state
        ),
        leader=partition.leader,
    )


def _or(target: Nodes | None, current: Nodes) -> Nodes:
    return current if target is None else target


def _complete(draft: _Draft) -> None:
    """Complete the reassignment if every replica of its target is in sync."""
    if not draft.adding and not draft.removing:
        return
    isr = completed_isr(draft.isr, draft.replicas, draft.removing)
    if isr is not None:
        draft.replicas = tuple(node for node in draft.replicas if node not in draft.removing)
        draft.isr, draft.adding, draft.removing = isr, (), ()


def _set_elr(partition: PartitionRegistration, draft: _Draft, target: Target, rules: Rules) -> None:
    """While the ISR is below min ISR the high watermark does not advance, so that replicas which leave the
    ISR have every acknowledged record and stay eligible. From min ISR on only the ISR has them."""
    if len(draft.isr) >= effective_min_isr(rules.min_isr, len(draft.replicas)):
        draft.elr = ()
        return
    known = {*partition.elr, *partition.isr}.intersection(draft.replicas)
    draft.elr = tuple(sorted(known.difference(draft.isr, target.lossy)))


def _elect(partition: PartitionRegistration, draft: _Draft, target: Target, rules: Rules) -> None:
    last = partition.last_known_elr if rules.is_last_leader_allowed else ()
    last_leader = last[0] if len(last) == 1 and last[0] in draft.replicas else NO_NODE
    ballot = Ballot(
        draft.replicas,
        draft.isr,
        draft.elr,
        partition.leader,
        rules.candidates,
        last_leader,
        rules.avoided,
        target.chosen,
    )
    draft.leader, is_clean = target.elect(ballot)
    if draft.leader == NO_NODE or draft.leader in draft.isr:
        return
    draft.isr = (draft.leader,)
    if is_clean:
        # The new ISR may be smaller than the target ISR, or reach min ISR, which empties the ELR.
        _set_elr(partition, draft, target, rules)
    else:
        draft.elr, draft.recovery_state = (), RECOVERING


def _remember_leader(partition: PartitionRegistration, draft: _Draft) -> None:
    """Keep the last known leader from when the ISR is empty until the next election."""
    if draft.leader != NO_NODE:
        draft.last_known = ()
        return
    draft.last_known = tuple(node for node in draft.last_known if node in draft.replicas)
    if draft.isr or draft.last_known:
        return
    # Older metadata logs have partitions without a leader whose last ISR member stayed in the ISR.
    last = partition.leader if partition.leader != NO_NODE or len(partition.isr) != 1 else partition.isr[0]
    draft.last_known = (last,) if last in draft.replicas else ()


def _record(
    topic_id: bytes, number: int, partition: PartitionRegistration, draft: _Draft
) -> PartitionChangeRecord | None:
    # The leader epoch rises also when a replica is removed, so that the removed replica is fenced.
    is_bumped = draft.leader != partition.leader or not set(partition.replicas) <= set(draft.replicas)
    record = PartitionChangeRecord(
        topic_id=topic_id,
        partition=number,
        leader=draft.leader if is_bumped else None,
        isr=_changed(tuple(sorted(draft.isr)), partition.isr),
        replicas=_changed(draft.replicas, partition.replicas),
        adding_replicas=_changed(draft.adding, partition.adding_replicas),
        removing_replicas=_changed(draft.removing, partition.removing_replicas),
        elr=_changed(draft.elr, partition.elr),
        last_known_elr=_changed(draft.last_known, partition.last_known_elr),
        leader_recovery_state=(
            None if draft.recovery_state == partition.leader_recovery_state else draft.recovery_state
        ),
    )
    return None if record == PartitionChangeRecord(topic_id, number) else record


def _changed(new: Nodes, old: Nodes) -> Nodes | None:
    return None if new == old else new
