"""Decisions that a gate keeps for Produce and Fetch: for one client, and until the next image."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from authorization_kit import IMAGE, Rights, T, X, id_of, name_of
from headrace.protocol.coordinator_errors import CoordinatorNotAvailableError
from headrace.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    TransactionalIdAuthorizationFailedError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from headrace.protocol.messages.groups import HeartbeatRequest
from headrace.protocol.security.acls import CLUSTER, AclOperation
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.runtime.authorization import gate as module
from headrace.runtime.authorization.gate import Gate
from headrace.runtime.authorization.outcomes import Answered

ALICE, BOB = Identity(user("alice")), Identity(user("bob"))
WRITE = (AclOperation.WRITE, T, name_of(T, "own"))


class Rig:
    """A gate in front of a server whose image the test changes."""

    def __init__(self) -> None:
        self.image = IMAGE
        self.rights = Rights([WRITE])
        self.gate = Gate(self.rights, lambda: self.image)

    def next_image(self) -> None:
        self.image = dataclasses.replace(self.image, offset=self.image.offset + 1)

    def write(self, *owners: str, identity: Identity = ALICE, transaction: str | None = None) -> Any:
        entries = tuple(ProducePartition(id_of(owner), 0) for owner in owners)
        body = ProduceRequest(-1, 1_000, entries, transaction)
        return self.check(registry.PRODUCE, body, identity, [b""] * len(owners))

    def read(self, replica_id: int = -1) -> Any:
        body = FetchRequest(0, 1, 1, 0, (FetchPartition(id_of("own"), 0, 0, 1),), replica_id)
        return self.check(registry.FETCH, body, ALICE, ())

    def check(self, api: Any, body: Any, identity: Identity, frames: Any) -> Any:
        peer = SimpleNamespace(identity=identity)
        return self.gate.check(SimpleNamespace(peer=peer, api=api, body=body, frames=frames))  # type: ignore[arg-type]


def test_repeated_decisions_are_cached() -> None:
    """Of the same client about the same topics."""
    rig = Rig()
    assert rig.write("own") is rig.write("own") is None
    assert rig.rights.asked == 1
    assert rig.write("own", identity=BOB) is None
    assert rig.rights.asked == 2
    assert rig.write("own", "other") is not None


def test_removed_rule_has_no_effect() -> None:
    """From the image on that removes it; and a new one is obeyed."""
    rig = Rig()
    assert rig.write("own") is None
    rig.rights.rights.clear()
    rig.next_image()
    assert isinstance(rig.write("own"), Answered)
    rig.rights.rights.add(WRITE)
    assert rig.write("own") is None, "refusals are not kept"


def test_cached_decision_of_one_api_does_not_allow_another() -> None:
    """Writers may not read, nor be followers, nor use a transaction."""
    rig = Rig()
    assert rig.write("own") is None
    assert isinstance(rig.read(), Answered)
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        rig.write("own", transaction=name_of(X, "own"))
    rig.rights.rights |= {(AclOperation.WRITE, X, name_of(X, "own")), (AclOperation.READ, *WRITE[1:])}
    assert rig.write("own", transaction=name_of(X, "own")) is None
    assert rig.read() is None
    with pytest.raises(KafkaError):
        rig.read(replica_id=2)
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        rig.write("own", transaction=name_of(X, "other"))


def test_cached_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may name any number of unknown topics."""
    monkeypatch.setattr(module, "MAX_KNOWN", 10)
    rig = Rig()
    for number in range(100):
        assert rig.write(f"unknown-{number}") is None
        assert rig.gate._known <= 10
        assert sum(len(each) for each in rig.gate._allowed[0].values()) <= 10


class Unready(Rights):
    """Knows no rules."""

    is_ready = False

    def allows(self, *_: Any) -> bool:
        raise LeaderNotAvailableError("no rules")


def test_without_the_rules_clients_are_sent_to_another_node() -> None:
    """With the error after which clients of the api look for it; nothing that was decided before is used, and
    responses show nothing."""
    rig = Rig()
    assert rig.write("own") is None
    rig.gate.authorizer = Unready()
    with pytest.raises(NotLeaderOrFollowerError):
        rig.write("own")
    heartbeat = HeartbeatRequest("own-group", 1, "m")
    with pytest.raises(CoordinatorNotAvailableError):
        rig.check(registry.HEARTBEAT, heartbeat, ALICE, ())
    with pytest.raises(LeaderNotAvailableError):
        rig.check(registry.METADATA, MetadataRequest(("own-topic",)), ALICE, ())
    assert rig.gate.hides_topic(ALICE, registry.FETCH.key, "own-topic")
    assert not rig.gate.shows_topic(ALICE, "own-topic")
    assert rig.gate.operations(ALICE, CLUSTER) == 0


def test_requests_of_servers_are_not_checked() -> None:
    """Nor is anyone without an authorizer."""
    rig = Rig()
    assert rig.write("other", identity=Identity(is_server=True)) is None
    rig.gate.authorizer = None
    assert rig.write("other") is None
    assert rig.rights.asked == 0
