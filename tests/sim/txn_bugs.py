"""Planted bugs of groups and transactions: each breaks one rule, and the simulation must find it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from cluster_bugs import CALM, PLAN
from headrace.clients.consumer.completed_fetch import AbortedTransactions
from headrace.coordinators.group import reconciliation
from headrace.coordinators.group.offset_commits import OffsetCommits
from headrace.coordinators.group.offset_fetches import OffsetFetches
from headrace.coordinators.group.offset_store import OffsetStore
from headrace.coordinators.runtime.hosted_shard import HostedShard
from headrace.coordinators.runtime.ports import NO_PRODUCER, Outcome
from headrace.coordinators.txn import shard as txn_shard
from headrace.coordinators.txn import transaction
from headrace.coordinators.txn.markers import Markers
from headrace.coordinators.txn.shard import TransactionShard
from headrace.coordinators.txn.states import ENDING, state_of
from headrace.storage_node.links.lease import Lease
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.producer_state import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from cluster import Plan


def checks_no_sequence(patch: pytest.MonkeyPatch) -> None:
    """The leader does not check sequences: it appends a retried batch again."""
    patch.setattr(Producer, "repeated", lambda *_: None)
    patch.setattr(Producer, "check_sequence", lambda *_: None)


def skips_a_marker(patch: pytest.MonkeyPatch) -> None:
    """The coordinator writes the marker to only one of a transaction's partitions."""

    def begin(self: Markers, transactions: Any, now: Any, begin: Any = Markers.begin) -> Outcome:
        def some(transaction: Any) -> Any:
            return SimpleNamespace(
                partitions=lambda: transaction.partitions()[:1],
                value=transaction.value,
                state=transaction.state,
            )

        return begin(self, [(name, some(each)) for name, each in transactions], now)  # type: ignore[no-any-return]

    patch.setattr(Markers, "begin", begin)


def writes_commit_markers_for_aborts(patch: pytest.MonkeyPatch) -> None:
    """Every marker is a commit marker."""

    def marker(self: Markers, errand: Any, marker: Any = Markers._marker) -> Any:
        return msgspec.structs.replace(marker(self, errand), committed=True)

    patch.setattr(Markers, "_marker", marker)


def applies_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction are visible before it is committed."""

    def replay(
        self: OffsetStore, record: Any, offset: int, _stamp: Any, replay: Any = OffsetStore.replay
    ) -> None:
        replay(self, record, offset, NO_PRODUCER)

    patch.setattr(OffsetStore, "replay", replay)


def ignores_require_stable(patch: pytest.MonkeyPatch) -> None:
    """OffsetFetch with require_stable returns the offsets from before an open transaction."""

    def of_group(
        self: OffsetFetches,
        asked: Any,
        *,
        require_stable: bool,
        of_group: Any = OffsetFetches._of_group,
    ) -> Any:
        return of_group(self, asked, require_stable=False)

    patch.setattr(OffsetFetches, "_of_group", of_group)


def lets_old_generations_commit_offsets(patch: pytest.MonkeyPatch) -> None:
    """Members of an earlier generation may commit offsets."""
    patch.setattr(OffsetCommits, "check_member", lambda *_, **__: None)


def lets_zombies_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """EndTxn does not check producer id and epoch: a zombie ends the transaction of the newer producer."""

    def ended(before: Any, request: Any, *rest: Any, ended: Any = txn_shard.ended) -> Any:
        if before is not None and before.state not in ENDING:
            value = before.value
            request = msgspec.structs.replace(
                request, producer_id=value.producer_id, producer_epoch=value.producer_epoch
            )
        return ended(before, request, *rest)

    patch.setattr(txn_shard, "ended", ended)


def responds_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Responses of coordinators do not wait until their records are committed."""

    def answer(self: HostedShard, answers: Any, now: Any, answer: Any = HostedShard._answer) -> None:
        answer(self, [each._replace(waits=False) for each in answers], now)

    patch.setattr(HostedShard, "_answer", answer)


def serves_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """A coordinator whose lease has expired still responds from its state."""
    patch.setattr(Lease, "holds", lambda *_: True)


def reads_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.high_watermark))


def reads_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    """A consumer ignores the list of aborted transactions."""
    patch.setattr(AbortedTransactions, "covers", lambda *_: False)


def drops_decided_transactions(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not complete transactions in PREPARE_COMMIT or PREPARE_ABORT."""

    def on_loaded(self: TransactionShard, now: Any, on_loaded: Any = TransactionShard.on_loaded) -> Outcome:
        on_loaded(self, now)
        return Outcome()

    patch.setattr(TransactionShard, "on_loaded", on_loaded)


def drops_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator loads only completed transactions."""

    def on_loaded(self: TransactionShard, now: Any, on_loaded: Any = TransactionShard.on_loaded) -> Outcome:
        for name in list(self._deadlines):
            del self.transactions[name], self._deadlines[name]
        return on_loaded(self, now)  # type: ignore[no-any-return]

    patch.setattr(TransactionShard, "on_loaded", on_loaded)


def skips_markers_at_load(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not replay the transaction markers in its log."""

    def replay(self: HostedShard, item: Any, replay: Any = HostedShard._replay) -> None:
        if item.record is not None:
            replay(self, item)

    patch.setattr(HostedShard, "_replay", replay)


def never_times_out(patch: pytest.MonkeyPatch) -> None:
    """Transactions do not time out."""
    patch.setattr(TransactionShard, "_is_overdue", lambda *_: False)


def drops_prepared_states(patch: pytest.MonkeyPatch) -> None:
    """A coordinator treats a prepared transaction as open: its timeout or the next producer aborts it."""
    patch.setattr(transaction, "state_of", lambda status, **_: state_of(status))


def assigns_partitions_before_revocation(patch: pytest.MonkeyPatch) -> None:
    """The coordinator of the new protocol assigns a partition before its owner has revoked it."""

    def advance(
        member: Any,
        epoch: int,
        target: Any,
        readable: Any,
        _owner_of: Any,
        owned: Any,
        advance: Any = reconciliation._advance,
    ) -> Any:
        return advance(member, epoch, target, readable, lambda *_: None, owned)

    patch.setattr(reconciliation, "_advance", advance)


# A shorter limit for hanging transactions: without a bug none of these plans needs more than 18 s.
CLASSIC = dataclasses.replace(
    PLAN, groups="classic", unreliable_producer=False, readers=False, patience_ms=25_000
)
MODERN = dataclasses.replace(CLASSIC, groups="modern")
QUIET = dataclasses.replace(CLASSIC, faults=CALM.faults, fault_ms=2_000)
AWAY = dataclasses.replace(CLASSIC, faults=("pause", "isolate"), fault_ms=15_000)
CUT_OFF = dataclasses.replace(CLASSIC, scenario="coordinators_are_cut_off", session_ms=7_000)
WRONG = ("AllOrNothing", "ExactlyOnce", "G1a")
HANGS = ("HangingTransaction", "NotCopied", "no progress", "nothing works", "waits for ever")
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[tuple[str, ...], Plan, int]] = {
    checks_no_sequence: (("duplicate", "ExactlyOnce"), CLASSIC, 10),
    skips_a_marker: ((*HANGS, *WRONG), QUIET, 3),
    writes_commit_markers_for_aborts: (WRONG, QUIET, 3),
    applies_pending_offsets: (("NotCopied", "ExactlyOnce", "OffsetsKept"), QUIET, 10),
    ignores_require_stable: (("NotCopied", "ExactlyOnce", "OffsetsKept"), AWAY, 40),
    lets_old_generations_commit_offsets: (("ExactlyOnce", "OffsetsKept"), AWAY, 20),
    lets_zombies_end_transactions: (WRONG, CLASSIC, 20),
    responds_before_commit: (("OffsetsKept", "OneOwner", "AnsweredCommitted", *WRONG), CLASSIC, 20),
    reads_open_transactions: (("G1a", *WRONG), QUIET, 3),
    reads_aborted_transactions: (("G1a", *WRONG), QUIET, 3),
    drops_decided_transactions: (HANGS, CLASSIC, 10),
    drops_open_transactions: ((*HANGS, *WRONG, "CoordinatorState"), CLASSIC, 10),
    skips_markers_at_load: (("CoordinatorState", "OffsetsKept", "ExactlyOnce", *HANGS), CLASSIC, 10),
    never_times_out: (HANGS, QUIET, 10),
    drops_prepared_states: (WRONG, dataclasses.replace(QUIET, drivers=True), 5),
    assigns_partitions_before_revocation: (("OneOwner", "ExactlyOnce"), MODERN, 10),
    serves_without_a_lease: (("OffsetsKept",), CUT_OFF, 3),
}
# The seed that finds the bug soonest, if it is not seed 1: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    ignores_require_stable: 9,
    skips_a_marker: 2,
    applies_pending_offsets: 4,
    lets_old_generations_commit_offsets: 5,
    lets_zombies_end_transactions: 13,
    drops_decided_transactions: 8,
    drops_open_transactions: 4,
    drops_prepared_states: 5,
    skips_markers_at_load: 4,
    never_times_out: 6,
    responds_before_commit: 2,
    serves_without_a_lease: 2,
}
