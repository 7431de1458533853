"""The metrics of a group member, by the names of Kafka's consumer-coordinator-metrics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.registry import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from ..measured import HOUR_S, Measured
from .member import ChangeKind
from .states import MemberState

if TYPE_CHECKING:
    from ...protocol.messages.envelope import Api

_S = MemberState
_SETTLED = (_S.UNJOINED, _S.STABLE, _S.LATE, _S.FAILED)
_CALLBACKS = {
    ChangeKind.ASSIGNED: "partition-assigned",
    ChangeKind.REVOKED: "partition-revoked",
    ChangeKind.LOST: "partition-lost",
}


class GroupMetrics:
    """The metrics of one member. All methods but `values` are called on the loop. Times in ms."""

    def __init__(self) -> None:
        self._join, self._sync, self._heartbeat, self._commit = (Measured() for _ in range(4))
        self._rebalance, self._failed = Measured(), Measured()
        self._callbacks = {kind: Measured() for kind in ChangeKind}
        self._sent = {
            JOIN_GROUP: self._join,
            SYNC_GROUP: self._sync,
            HEARTBEAT: self._heartbeat,
            CONSUMER_GROUP_HEARTBEAT: self._heartbeat,
            OFFSET_COMMIT: self._commit,
        }
        self._state, self._was_member = _S.UNJOINED, False
        self._began_ms = 0  # of the current rebalance
        self._heartbeat_at_ms: int | None = None
        self._rebalanced_at_ms: int | None = None

    def response_received(self, api: Api, began_ms: int, now_ms: int) -> None:
        """The coordinator has responded to a request that was sent at `began_ms`."""
        if api in self._sent:
            self._sent[api].record(now_ms - began_ms, now_ms)
        if self._sent.get(api) is self._heartbeat:
            self._heartbeat_at_ms = began_ms

    def ownership_changed(self, kind: ChangeKind, began_ms: int, now_ms: int) -> None:
        """The consumer has adopted or released partitions, callback included."""
        self._callbacks[kind].record(now_ms - began_ms, now_ms)

    def state_changed(self, state: MemberState, is_member: bool, now_ms: int) -> None:
        """Measure rebalances by the state of the member: from STABLE, or from the start, to STABLE. A
        rebalance fails by an error, a lost membership, or a poll after max.poll.interval.ms."""
        before, was_member = self._state, self._was_member
        self._state, self._was_member = state, is_member
        if before in _SETTLED:
            if state not in _SETTLED:
                self._began_ms = now_ms
            return
        took_ms = now_ms - self._began_ms
        if state is _S.STABLE:
            self._rebalance.record(took_ms, now_ms)
            self._rebalanced_at_ms = now_ms
        elif (
            state in (_S.LATE, _S.FAILED)
            or (was_member and not is_member and state is not _S.UNJOINED)
            or (before, state) == (_S.SYNCING, _S.JOINING)
        ):
            self._failed.record(took_ms, now_ms)
            self._began_ms = now_ms

    def values(self, now_ms: int) -> dict[str, float]:
        """Rates are of the last minute; the age of an event that never happened is -1."""
        rebalance, failed, commit, beat = self._rebalance, self._failed, self._commit, self._heartbeat
        found = {
            "rebalance-total": rebalance.total,
            "rebalance-rate-per-hour": rebalance.per_second(now_ms) * HOUR_S,
            "rebalance-latency-avg": rebalance.average_ms(now_ms),
            "rebalance-latency-max": rebalance.highest_ms(now_ms),
            "rebalance-latency-total": rebalance.total_ms,
            "failed-rebalance-total": failed.total,
            "failed-rebalance-rate-per-hour": failed.per_second(now_ms) * HOUR_S,
            "last-rebalance-seconds-ago": _age_s(self._rebalanced_at_ms, now_ms),
            "commit-total": commit.total,
            "commit-rate": commit.per_second(now_ms),
            "commit-latency-avg": commit.average_ms(now_ms),
            "commit-latency-max": commit.highest_ms(now_ms),
            "heartbeat-total": beat.total,
            "heartbeat-rate": beat.per_second(now_ms),
            "heartbeat-response-time-max": beat.highest_ms(now_ms),
            "last-heartbeat-seconds-ago": _age_s(self._heartbeat_at_ms, now_ms),
        }
        for name, request in (("join", self._join), ("sync", self._sync)):
            found[f"{name}-total"] = request.total
            found[f"{name}-rate"] = request.per_second(now_ms)
            found[f"{name}-time-avg"] = request.average_ms(now_ms)
            found[f"{name}-time-max"] = request.highest_ms(now_ms)
        for kind, name in _CALLBACKS.items():
            found[f"{name}-latency-avg"] = self._callbacks[kind].average_ms(now_ms)
            found[f"{name}-latency-max"] = self._callbacks[kind].highest_ms(now_ms)
        return found


def _age_s(at_ms: int | None, now_ms: int) -> float:
    return -1 if at_ms is None else max(now_ms - at_ms, 0) // 1000
