"""Decisions of the authorizer, written to the audit topic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_rig import NODE, CoreRig
from headrace.protocol.errors import NetworkError
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsResponse, ItemError
from headrace.protocol.messages.data import ProducePartitionResponse, ProduceResponse
from headrace.protocol.metadata.records import RegisterBrokerRecord
from headrace.protocol.model import AUDIT_TOPIC, NO_NODE
from headrace.protocol.records.codec import active_codec
from headrace.protocol.security.acls import AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.storage_node.edge.audit_buffer import Decision
from headrace.storage_node.edge.audit_writer import MAX_BATCH_EVENTS, RETRY_MS
from headrace.storage_node.effects import AskPeer, Note
from node_rig import WALL_MS

ALICE = Identity(user("alice"), "10.0.0.1", "PLAIN")


def decision(topic: str = "orders", *, allowed: bool = False) -> Decision:
    resource = Resource(ResourceType.TOPIC, topic)
    return Decision(ALICE, "app", "Produce", AclOperation.WRITE, resource, allowed)


class Rig(CoreRig):
    """A node core whose audit topic has a leader."""

    def __init__(self, *, has_topic: bool = True, **config: Any) -> None:
        super().__init__(**config)
        self.metadata(RegisterBrokerRecord(NODE, b"i" * 16, "h", 1, None, (), 1, is_fenced=False))
        if has_topic:
            self.topic(AUDIT_TOPIC)

    def record(self, *decisions: Decision) -> None:
        for each in decisions:
            self.core.audit.record(each, WALL_MS)

    def question(self) -> AskPeer:
        """The request of the next step."""
        self.step()
        (question,) = self.pop(AskPeer)
        return question

    def answer(self, question: AskPeer, outcome: Any) -> None:
        question.answered(outcome, self.now_ms, WALL_MS)
        self.check()

    def step(self) -> None:
        self.core.tick(self.now_ms, WALL_MS)
        self.check()

    def is_quiet(self) -> bool:
        self.step()
        return not self.pop(AskPeer)


def events_of(question: AskPeer) -> list[dict[str, Any]]:
    assert question.api is registry.PRODUCE
    (batch,) = question.frames
    return [msgspec.json.decode(record.value) for record in active_codec().decode(batch)]


def written(code: int = 0) -> ProduceResponse:
    return ProduceResponse((ProducePartitionResponse(code),))


def test_denials_are_one_batch_to_the_leader_of_the_audit_topic() -> None:
    """With acks=all; nothing is sent while nothing was denied."""
    rig = Rig()
    assert rig.is_quiet()
    rig.record(decision(), decision(), decision("payments"))
    question = rig.question()
    assert (question.node_id, question.body.acks) == (NODE, -1)
    assert [(event["resource"], event.get("count", 1)) for event in events_of(question)] == [
        ("orders", 2),
        ("payments", 1),
    ]
    assert rig.is_quiet(), "one request is in flight"
    rig.answer(question, written())
    assert rig.is_quiet()
    assert (rig.core.audit.written_total, rig.core.audit.missing_total) == (3, 0)


def test_allowed_operations_are_recorded_by_choice() -> None:
    """By default denials alone; with audit.enable=false nothing."""
    rig = Rig()
    rig.record(decision(allowed=True))
    assert rig.is_quiet()
    rig = Rig(audit_allowed_operations="WRITE,CREATE")
    rig.record(decision(allowed=True))
    assert [event["allowed"] for event in events_of(rig.question())] == [True]
    rig = Rig(audit_enable=False)
    rig.record(decision())
    assert rig.is_quiet()


def test_the_topic_is_created_when_the_first_event_waits() -> None:
    """A failure is logged, and tried again later; the event stays."""
    rig = Rig(has_topic=False, audit_topic_replication_factor=1)
    assert rig.is_quiet()
    rig.record(decision())
    question = rig.question()
    (topic,) = question.body.topics
    assert (question.api, question.node_id) == (registry.CREATE_TOPICS, NO_NODE)
    assert (topic.name, topic.replication_factor, topic.configs["cleanup.policy"]) == (
        AUDIT_TOPIC,
        1,
        "delete",
    )
    rig.answer(question, CreateTopicsResponse((ItemError(AUDIT_TOPIC, 38, "too few nodes"),)))
    (note,) = rig.pop(Note)
    assert "too few nodes" in note.text
    assert rig.is_quiet()
    rig.now_ms += RETRY_MS
    rig.answer(rig.question(), CreateTopicsResponse((ItemError(AUDIT_TOPIC),)))
    rig.topic(AUDIT_TOPIC)
    assert len(events_of(rig.question())) == 1


@pytest.mark.parametrize("outcome", [NetworkError("gone"), written(7)])
def test_next_event_has_the_number_of_unwritten_decisions(outcome: Any) -> None:
    """Whether the leader did not answer or refused."""
    rig = Rig()
    rig.record(decision(), decision())
    rig.answer(rig.question(), outcome)
    (note,) = rig.pop(Note)
    assert "2 decisions could not be written" in note.text
    rig.record(decision())
    assert rig.is_quiet()
    rig.now_ms += RETRY_MS
    (event,) = events_of(rig.question())
    assert event["missing"] == 2


def test_a_batch_is_bounded() -> None:
    """The other events follow; long names take fewer per batch, and those that do not fit are counted."""
    rig = Rig()
    rig.record(*(decision(f"t{number}") for number in range(MAX_BATCH_EVENTS + 1)))
    first = rig.question()
    assert len(events_of(first)) == MAX_BATCH_EVENTS
    rig.answer(first, written())
    assert [event["resource"] for event in events_of(rig.question())] == [f"t{MAX_BATCH_EVENTS}"]
    rig = Rig()
    rig.record(*(decision(f"{number}" * 400) for number in range(MAX_BATCH_EVENTS)))
    question = rig.question()
    assert len(events_of(question)) < MAX_BATCH_EVENTS
    assert rig.core.audit.missing_total == MAX_BATCH_EVENTS - len(events_of(question))
