"""Decisions about requests become records of the audit topic."""

import contextlib
from types import SimpleNamespace
from typing import Any

from authorization_kit import IMAGE, id_of
from core_rig import FakePeer, FakeRequest
from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ProducePartition, ProduceRequest
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.protocol.security.authorizer import RuleAuthorizer
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.rule_index import RuleIndex
from headrace.runtime.authorization.gate import Gate
from headrace.storage_node.edge.audit_notes_io import AuditNotes

ALICE = Identity(user("alice"), "10.0.0.1", "PLAIN")
RULE = AclBinding(
    ResourceType.TOPIC,
    "own-",
    PatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.WRITE,
    AclPermission.ALLOW,
)


class Rig:
    """A gate whose decisions are recorded."""

    def __init__(self, *allowed: str) -> None:
        self.records: list[Any] = []
        authorizer = RuleAuthorizer(RuleIndex([RULE]))
        config = SimpleNamespace(now=SimpleNamespace(audit_enable=True, audit_allowed_operations=allowed))
        core: Any = SimpleNamespace(
            config=config,
            authorization=SimpleNamespace(authorizer=authorizer),
            audit=SimpleNamespace(record=lambda decision, _wall_ms: self.records.append(decision)),
        )
        self.gate = Gate(authorizer, lambda: IMAGE)
        self.gate.audit = AuditNotes(core)

    def write(self, owner: str) -> list[tuple[Any, ...]]:
        """The records of a Produce."""
        body = ProduceRequest(-1, 9, (ProducePartition(id_of(owner), 0),))
        request = FakeRequest(registry.PRODUCE, body, (b"",), FakePeer(identity=ALICE))
        self.records.clear()
        with contextlib.suppress(KafkaError):
            self.gate.check(request)
        return [(each.api, each.resource.name, each.allowed, each.rule) for each in self.records]


def test_denials_are_recorded_with_their_reason() -> None:
    """Each time; what is allowed is not."""
    rig = Rig()
    denied = [("Produce", "other-topic", False, "no rule allows it")]
    assert rig.write("other") == rig.write("other") == denied
    assert rig.write("own") == []


def test_allowed_operations_are_recorded_as_configured() -> None:
    """Each time, with the rule, although the decision is known."""
    rig = Rig("WRITE")
    allowed = [
        ("Produce", "own-topic", True, "ALLOW User:alice from *: WRITE on prefixed TOPIC own-"),
    ]
    assert rig.write("own") == rig.write("own") == allowed
