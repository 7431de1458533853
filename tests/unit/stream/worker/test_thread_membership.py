"""When a thread reports the offsets of its stores to its group, and whether it is still a member."""

from __future__ import annotations

from headrace.clients.group.streams import TaskRoles
from headrace.stream.records import TaskId
from headrace.stream.worker.thread_membership import ThreadMembership
from worker_rig import SOURCE, counting_app, plan_of

TASK = TaskId(0, 1)


def test_offsets_are_reported_by_interval_and_when_a_warm_up_has_caught_up() -> None:
    """A standby does not hurry, nor does a warm-up that was reported, or whose lag is not known."""
    plan = plan_of(counting_app(), {SOURCE: 2}, None)
    membership = ThreadMembership(plan, "process", lambda: None, lambda: None)
    application = membership.application
    application.task_offset_interval_ms, application.acceptable_recovery_lag = 60_000, 5
    lags: dict[TaskId, int | None] = {TASK: None}

    def is_due(now_ms: int) -> bool:
        return membership.offsets_due(now_ms, lags.get)

    assert is_due(1_000)
    lags[TASK] = 0
    application.tasks = TaskRoles(standby=frozenset({("0", 1)}))
    assert not is_due(2_000)
    lags[TASK] = None
    application.tasks = TaskRoles(warmup=frozenset({("0", 1)}))
    assert not is_due(3_000)
    lags[TASK] = 6
    assert not is_due(4_000)
    lags[TASK] = 5
    assert is_due(5_000)
    assert not is_due(6_000)
    lags[TASK] = 6
    assert not is_due(7_000)
    lags[TASK] = 5
    assert is_due(8_000), "it was behind again"
    assert not is_due(67_999)
    assert is_due(68_000)


def test_thread_is_member_while_heartbeats_get_responses() -> None:
    """Four heartbeat intervals behind the last response it does not count as a member any more."""
    plan = plan_of(counting_app(), {SOURCE: 2}, None)
    membership = ThreadMembership(plan, "process", lambda: None, lambda: None)
    assert not membership.has_recent_response(1_000)
    application = membership.application
    application.responses, application.heartbeat_interval_ms = 1, 500
    membership.check(10_000)
    membership.check(11_500)
    assert membership.has_recent_response(12_000)
    assert not membership.has_recent_response(12_001)
    application.responses = 2
    membership.check(12_500)
    assert membership.has_recent_response(14_500)
