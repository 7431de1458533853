"""The queue of ISR proposals to the controller (AlterPartition). Pure.

At most one request is in flight; later proposals go with the next one. A proposal stays until it is accepted,
refused, or void because the partition epoch has changed. One with an unknown outcome is sent again unchanged:
its partition epoch keeps the controller from applying it twice.
Source: Kafka AlterPartitionManager.scala, Partition.scala handleAlterPartitionError; KIP-497.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import AlterPartitionItem, AlterPartitionRequest

if TYPE_CHECKING:
    from ...protocol.messages.control import AlteredPartition, AlterPartitionResponse
    from .in_sync import IsrProposal
    from .partition import Partition

RETRY_MS = 50
# Bound: partitions per request.
MAX_ITEMS = 2_000

# The controller has rejected the proposal itself: it will never be applied.
_REFUSED = frozenset((IneligibleReplicaError.code, InvalidRequestError.code))
# The partition has changed: metadata will bring its state, and until then either ISR may be committed.
_OVERTAKEN = frozenset(
    (
        FencedLeaderEpochError.code,
        InvalidUpdateVersionError.code,
        NewLeaderElectedError.code,
        UnknownTopicIdError.code,
        UnknownTopicOrPartitionError.code,
    )
)


class Proposed(NamedTuple):
    """A proposal and its partition."""

    partition: Partition
    proposal: IsrProposal

    @property
    def is_open(self) -> bool:
        """Whether the proposal may still be applied."""
        in_sync = self.partition.in_sync
        return in_sync is not None and in_sync.proposal is self.proposal


class Decided(NamedTuple):
    """A proposal that the controller has applied."""

    proposed: Proposed
    answer: AlteredPartition


class IsrChanges:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._waiting: list[Proposed] = []
        self._under_way: list[Proposed] | None = None
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way or ())

    @property
    def asked(self) -> list[Partition]:
        """The partitions whose proposals are in flight."""
        return [proposed.partition for proposed in self._under_way or ()]

    def add(self, partition: Partition, proposal: IsrProposal) -> None:
        """Queue a proposal."""
        self._waiting.append(Proposed(partition, proposal))

    def next_deadline_ms(self) -> int | None:
        """When `take` has a request; None while one is in flight or nothing is queued."""
        return self._not_before_ms if self._waiting and self._under_way is None else None

    def take(self, node_id: int, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """The request to send now; then `answered` or `failed`."""
        if not self._waiting or self._under_way is not None or now_ms < self._not_before_ms:
            return None
        waiting = [proposed for proposed in self._waiting if proposed.is_open]
        self._waiting = waiting[MAX_ITEMS:]
        taken = waiting[:MAX_ITEMS]
        if not taken:
            return None
        self._under_way = taken
        return AlterPartitionRequest(node_id, broker_epoch, tuple(_item(proposed) for proposed in taken))

    def failed(self, now_ms: int) -> None:
        """No response from the active controller: the outcome is unknown, retry soon."""
        again, self._under_way = self._under_way or [], None
        self._waiting = again + self._waiting
        self._not_before_ms = now_ms + RETRY_MS

    def answered(self, response: AlterPartitionResponse, now_ms: int) -> list[Decided]:
        """Handle the response; returns the applied proposals and withdraws the refused ones."""
        asked = self._under_way or []
        if response.error_code != NO_ERROR or len(response.partitions) != len(asked):
            self.failed(now_ms)
            return []
        self._under_way = None
        decided: list[Decided] = []
        again: list[Proposed] = []
        for proposed, answer in zip(asked, response.partitions, strict=True):
            code = answer.error_code
            if code == NO_ERROR:
                decided.append(Decided(proposed, answer))
            elif code in _REFUSED:
                if proposed.partition.in_sync is not None:
                    proposed.partition.in_sync.refused(proposed.proposal, now_ms)
            elif code not in _OVERTAKEN:
                again.append(proposed)
        if again:
            self._waiting = again + self._waiting
            self._not_before_ms = now_ms + RETRY_MS
        return decided


def _item(proposed: Proposed) -> AlterPartitionItem:
    topic_id, index = proposed.partition.key
    proposal = proposed.proposal
    members = tuple((member.node_id, member.broker_epoch) for member in proposal.isr)
    return AlterPartitionItem(topic_id, index, proposal.leader_epoch, proposal.partition_epoch, members)
