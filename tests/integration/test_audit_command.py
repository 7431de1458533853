"""`headrace audit` over the topic that nodes write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import headrace
import msgspec
import pytest
from headrace import NewTopic
from headrace.protocol.model import AUDIT_TOPIC
from headrace.storage_node.edge.audit_buffer import AuditEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from command_line import CommandLine
    from headrace.services.local_io import LocalCluster

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def audited() -> Iterator[LocalCluster]:
    with headrace.local() as cluster:
        yield cluster


def event(time_ms: int, topic: str, **more: Any) -> AuditEvent:
    facts = {"allowed": False, **more}
    return AuditEvent(
        time_ms, 1, "User:alice", "10.0.0.1", "app", "PLAIN", "Produce", "WRITE", "TOPIC", topic, **facts
    )


def test_decisions_are_listed_and_filtered(audited: LocalCluster, command_line: CommandLine) -> None:
    """Before the first decision there is no topic, which is no error."""
    ask = command_line.at(audited.bootstrap)
    code, out, err = ask("audit")
    assert (code, out) == (0, "")
    assert "no decision was written yet" in err

    now_ms = time.time_ns() // 1_000_000
    audited.admin().create_topics(NewTopic(AUDIT_TOPIC, 1)).raise_for_errors()
    with audited.producer(client_id="node-1") as producer:
        for each in (
            event(now_ms - 2 * HOUR_MS, "orders", count=3, rule="no rule allows it"),
            event(now_ms, "payments", allowed=True),
        ):
            producer.send(AUDIT_TOPIC, msgspec.json.encode(each), timestamp=each.time_ms)
    rows = ask.json("audit")
    assert [(row["resource"], row["result"], row["count"]) for row in rows] == [
        ("TOPIC:orders", "denied", 3),
        ("TOPIC:payments", "allowed", 1),
    ]
    assert rows[0]["rule"] == "no rule allows it"

    def resources(*options: str) -> list[str]:
        return [row["resource"] for row in ask.json("audit", *options)]

    assert resources("--denied") == ["TOPIC:orders"]
    assert resources("--allowed") == ["TOPIC:payments"]
    assert resources("--resource", "payments") == ["TOPIC:payments"]
    assert resources("--principal", "User:bob") == []
    assert resources("--operation", "WRITE", "--principal", "User:alice") == [
        "TOPIC:orders",
        "TOPIC:payments",
    ]
    assert resources("--since", "PT1H") == ["TOPIC:payments"]
    assert "orders" in ask("audit")[1]
    code, _, err = ask("audit", "--since", "yesterday")
    assert code != 0
    assert "ISO 8601" in err
