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
    """A batch that is sent again is written again."""
    patch.setattr(Producer, "repeated", lambda *_: None)
    patch.setattr(Producer, "check_sequence", lambda *_: None)


def leaves_out_a_marker(patch: pytest.MonkeyPatch) -> None:
    """A transaction of several partitions is not ended in one of them."""

    def begin(self: Markers, transactions: Any, now: Any, begin: Any = Markers.begin) -> Outcome:
        def some(transaction: Any) -> Any:
            return SimpleNamespace(
                partitions=lambda: transaction.partitions()[:1],
                value=transaction.value,
                state=transaction.state,
            )

        return begin(self, [(name, some(each)) for name, each in transactions], now)  # type: ignore[no-any-return]

    patch.setattr(Markers, "begin", begin)


def marks_what_is_aborted_as_committed(patch: pytest.MonkeyPatch) -> None:
    """Every marker is one of a commit."""

    def marker(self: Markers, errand: Any, marker: Any = Markers._marker) -> Any:
        return msgspec.structs.replace(marker(self, errand), committed=True)

    patch.setattr(Markers, "_marker", marker)


def counts_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction count before it is committed."""

    def replay(
        self: OffsetStore, record: Any, offset: int, _stamp: Any, replay: Any = OffsetStore.replay
    ) -> None:
        replay(self, record, offset, NO_PRODUCER)

    patch.setattr(OffsetStore, "replay", replay)


def shows_what_is_about_to_change(patch: pytest.MonkeyPatch) -> None:
    """Who asks for stable offsets gets those from before an open transaction."""

    def of_group(
        self: OffsetFetches,
        asked: Any,
        *,
        require_stable: bool,
        of_group: Any = OffsetFetches._of_group,
    ) -> Any:
        return of_group(self, asked, require_stable=False)

    patch.setattr(OffsetFetches, "_of_group", of_group)


def lets_anybody_commit_offsets(patch: pytest.MonkeyPatch) -> None:
    """Members of a generation that is over commit like others."""
    patch.setattr(OffsetCommits, "check_member", lambda *_, **__: None)


def lets_zombies_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """Whoever has the transactional id ends the transaction of whoever has it now."""

    def ended(before: Any, request: Any, *rest: Any, ended: Any = txn_shard.ended) -> Any:
        if before is not None and before.state not in ENDING:
            value = before.value
            request = msgspec.structs.replace(
                request, producer_id=value.producer_id, producer_epoch=value.producer_epoch
            )
        return ended(before, request, *rest)

    patch.setattr(txn_shard, "ended", ended)


def answers_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """Answers of coordinators do not wait for the replicas."""

    def answer(self: HostedShard, answers: Any, now: Any, answer: Any = HostedShard._answer) -> None:
        answer(self, [each._replace(waits=False) for each in answers], now)

    patch.setattr(HostedShard, "_answer", answer)


def trusts_its_memory(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that does not know whether it leads still answers out of what it remembers."""
    patch.setattr(Lease, "holds", lambda *_: True)


def shows_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.high_watermark))


def shows_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    """A consumer does not look at the index of aborted transactions."""
    patch.setattr(AbortedTransactions, "covers", lambda *_: False)


def forgets_what_was_decided(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over ends nothing of what the one before had decided."""

    def on_loaded(self: TransactionShard, now: Any, on_loaded: Any = TransactionShard.on_loaded) -> Outcome:
        on_loaded(self, now)
        return Outcome()

    patch.setattr(TransactionShard, "on_loaded", on_loaded)


def forgets_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over knows only of transactions that have ended."""

    def on_loaded(self: TransactionShard, now: Any, on_loaded: Any = TransactionShard.on_loaded) -> Outcome:
        for name in list(self._deadlines):
            del self.transactions[name], self._deadlines[name]
        return on_loaded(self, now)  # type: ignore[no-any-return]

    patch.setattr(TransactionShard, "on_loaded", on_loaded)


def skips_markers_at_load(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over does not read the ends of transactions in its log."""

    def replay(self: HostedShard, item: Any, replay: Any = HostedShard._replay) -> None:
        if item.record is not None:
            replay(self, item)

    patch.setattr(HostedShard, "_replay", replay)


def never_times_out(patch: pytest.MonkeyPatch) -> None:
    """Transactions of producers that are gone stay open."""
    patch.setattr(TransactionShard, "_is_overdue", lambda *_: False)


def forgets_what_is_prepared(patch: pytest.MonkeyPatch) -> None:
    """To a coordinator it is an open transaction as any: its time ends it, and the next producer."""
    patch.setattr(transaction, "state_of", lambda status, **_: state_of(status))


def gives_away_what_is_not_free(patch: pytest.MonkeyPatch) -> None:
    """The new protocol's coordinator does not wait until a partition was given up."""

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


# What hangs is given up sooner than elsewhere: without a bug nothing of these takes longer than 18 s.
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
    leaves_out_a_marker: ((*HANGS, *WRONG), QUIET, 3),
    marks_what_is_aborted_as_committed: (WRONG, QUIET, 3),
    counts_offsets_at_once: (("NotCopied", "ExactlyOnce", "OffsetsKept"), QUIET, 10),
    shows_what_is_about_to_change: (("NotCopied", "ExactlyOnce", "OffsetsKept"), AWAY, 40),
    lets_anybody_commit_offsets: (("ExactlyOnce", "OffsetsKept"), AWAY, 20),
    lets_zombies_end_transactions: (WRONG, CLASSIC, 20),
    answers_before_it_is_committed: (("OffsetsKept", "OneOwner", "AnsweredCommitted", *WRONG), CLASSIC, 20),
    shows_what_is_open: (("G1a", *WRONG), QUIET, 3),
    shows_what_was_aborted: (("G1a", *WRONG), QUIET, 3),
    forgets_what_was_decided: (HANGS, CLASSIC, 10),
    forgets_what_is_open: ((*HANGS, *WRONG, "CoordinatorState"), CLASSIC, 10),
    skips_markers_at_load: (("CoordinatorState", "OffsetsKept", "ExactlyOnce", *HANGS), CLASSIC, 10),
    never_times_out: (HANGS, QUIET, 10),
    forgets_what_is_prepared: (WRONG, dataclasses.replace(QUIET, drivers=True), 5),
    gives_away_what_is_not_free: (("OneOwner", "ExactlyOnce"), MODERN, 10),
    trusts_its_memory: (("OffsetsKept",), CUT_OFF, 3),
}
# The seed that showed it soonest, where that was not the very first: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    counts_offsets_at_once: 4,
    lets_anybody_commit_offsets: 5,
    lets_zombies_end_transactions: 13,
    forgets_what_is_open: 4,
    forgets_what_is_prepared: 4,
    skips_markers_at_load: 4,
    never_times_out: 6,
    trusts_its_memory: 2,
}
