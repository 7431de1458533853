"""`headrace group tasks` over a fake cluster."""

from __future__ import annotations

import pytest
from command_line import CommandLine
from fake_admin_cluster import FakeAdminCluster
from headrace.protocol.messages.streams_groups import (
    DescribedStreamsGroup,
    StreamsGroupMember,
    TaskAssignment,
)
from headrace.protocol.records.streams_group_records import TaskIds

FIELDS = ("task", "role", "target", "member", "process")


def member(name: str, now: TaskAssignment, target: TaskAssignment) -> StreamsGroupMember:
    return StreamsGroupMember(name, 3, None, None, "client", "host", 0, f"p-{name}", None, (), now, target)


@pytest.fixture
def fake() -> FakeAdminCluster:
    """Group app: task 0_1 is about to move from m-1 to m-2, which has a standby of 0_0 and warms 0_1 up."""
    fake = FakeAdminCluster(1, latency_ms=0)
    zero, one, both = ((TaskIds("0", numbers),) for numbers in ((0,), (1,), (0, 1)))
    fake.streams_groups["app"] = DescribedStreamsGroup(
        0,
        "app",
        "Reconciling",
        members=(
            member("m-1", TaskAssignment(both), TaskAssignment(zero)),
            member("m-2", TaskAssignment((), zero, one), TaskAssignment(one, zero)),
        ),
    )
    fake.streams_groups["idle"] = DescribedStreamsGroup(0, "idle", "Empty")
    return fake


def test_tasks_are_shown_with_roles_and_targets(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """A row per task and member, in order; a task without target is to be revoked."""
    rows = shell.json("group", "tasks", "app")
    assert [tuple(row[name] for name in FIELDS) for row in rows] == [
        ("0_0", "active", "active", "m-1", "p-m-1"),
        ("0_1", "active", None, "m-1", "p-m-1"),
        ("0_0", "standby", "standby", "m-2", "p-m-2"),
        ("0_1", "warm-up", "active", "m-2", "p-m-2"),
    ]
    assert {row["group"] for row in rows} == {"app"}
    lines = [line.split() for line in shell("group", "tasks", "app")[1].splitlines()]
    assert lines[0][:4] == ["GROUP", "TASK", "ROLE", "TARGET"]
    assert lines[1][:5] == ["app", "0_0", "active", "active", "m-1"]


def test_groups_without_tasks_and_without_being(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """A note, and an error that names the group; the others are shown all the same."""
    code, out, err = shell("group", "tasks", "idle")
    assert (code, out, "no tasks" in err) == (0, "", True)
    code, out, err = shell("group", "tasks", "idle", "app", "none")
    assert code != 0
    assert "0_1" in out
    assert "none" in err
