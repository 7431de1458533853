"""Decisions of the authorizer on their way to the audit topic."""

from __future__ import annotations

import msgspec
from headrace.protocol.security.acls import AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.storage_node.edge.audit_buffer import MAX_NAME, AuditBuffer, Decision

ALICE = Identity(user("alice"), "10.0.0.1", "PLAIN")


def denied(topic: str = "orders", client_id: str = "app") -> Decision:
    resource = Resource(ResourceType.TOPIC, topic)
    return Decision(ALICE, client_id, "Produce", AclOperation.WRITE, resource, allowed=False)


def test_audit_event_has_principal_operation_address_and_result() -> None:
    """As JSON, without the fields that say nothing."""
    buffer = AuditBuffer(10)
    buffer.record(denied(), 1_000)
    (event,) = buffer.take(2, 10)
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "time_ms": 1_000,
        "node_id": 2,
        "principal": "User:alice",
        "host": "10.0.0.1",
        "client_id": "app",
        "mechanism": "PLAIN",
        "api": "Produce",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "resource": "orders",
        "allowed": False,
    }
    assert buffer.take(2, 10) == []


def test_equal_decisions_are_one_event() -> None:
    """A client that retries a refused request costs one record per flush."""
    buffer = AuditBuffer(10)
    for wall_ms in (1_000, 1_010, 1_020):
        buffer.record(denied(), wall_ms)
    buffer.record(denied("payments"), 1_030)
    first, second = buffer.take(2, 10)
    assert (first.count, first.time_ms, first.last_time_ms) == (3, 1_000, 1_020)
    assert (second.count, second.resource, second.last_time_ms) == (1, "payments", None)


def test_full_audit_buffer_counts_missing_decisions() -> None:
    """Also those that were taken and could not be written; the count is reported once."""
    buffer = AuditBuffer(2)
    for number in range(5):
        buffer.record(denied(f"t{number}"), number)
    assert [event.missing for event in buffer.take(2, 10)] == [0, 3]
    buffer.give_back(2)
    assert buffer.take(2, 10) == []
    buffer.record(denied(), 9)
    assert [event.missing for event in buffer.take(2, 10)] == [2]
    buffer.record(denied(), 10)
    assert [event.missing for event in buffer.take(2, 10)] == [0]
    assert buffer.missing_total == 5


def test_names_of_clients_are_bounded() -> None:
    """A client chooses them, and they may be as long as a request."""
    buffer = AuditBuffer(2)
    buffer.record(denied("t" * 10_000, "c" * 10_000), 0)
    (event,) = buffer.take(2, 10)
    assert (len(event.resource), len(event.client_id)) == (MAX_NAME, MAX_NAME)


def test_the_oldest_events_are_taken_first() -> None:
    """The others stay for the next batch."""
    buffer = AuditBuffer(10)
    for number in range(3):
        buffer.record(denied(f"t{number}"), number)
    assert [event.resource for event in buffer.take(1, 2)] == ["t0", "t1"]
    assert [event.resource for event in buffer.take(1, 2)] == ["t2"]
