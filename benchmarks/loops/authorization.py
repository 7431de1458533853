"""The authorizer of a storage node without a node: loading rules, looking them up, and checking requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.runtime.authorization.gate import Gate
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER, AuthorizationConfig
from headrace.storage_node.edge.authorization import NodeAuthorization

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.protocol.messages.envelope import Api

    from ..worker import Clock

USERS = 1_000
PREFIXED_EVERY = 10
PARTITIONS = 6
_OPERATIONS = (AclOperation.WRITE, AclOperation.READ)


class _Sender(NamedTuple):
    identity: Identity


class _Request(NamedTuple):
    peer: _Sender
    api: Api
    body: Any
    frames: tuple[bytes, ...] = ()


def authorize(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """`count` rules; `rounds` checks of a Produce and of a Fetch of six partitions, with all decisions in the
    cache, less what the same costs without an authorizer. Microseconds, and seconds to load the rules."""
    image = MetadataImage(
        offset=1,
        topic_names={_topic_id(number): f"topic-{number}" for number in range(spec["count"] // 2)},
        acls=dict.fromkeys(_rules(spec["count"])),
    )
    # No controller answers heartbeats here.
    no_limit = {"authorizer.metadata.max.age.ms": -1}
    config = AuthorizationConfig.of({"authorizer.class.name": STANDARD_AUTHORIZER, **no_limit})
    clock.ready()
    clock.start()
    authorization = NodeAuthorization(config)
    begun = time.perf_counter()
    authorization.follow(image, None, is_complete=True)
    load_s = time.perf_counter() - begun
    authorization.note_time(0)
    authorizer = authorization.authorizer
    assert authorizer is not None
    asked = [
        (_identity(number), Resource(ResourceType.TOPIC, f"topic-{number // 2}"), _OPERATIONS[number % 2])
        for number in range(spec["count"])
    ]
    begun = time.perf_counter()
    allowed = sum(authorizer.allows(identity, operation, resource) for identity, resource, operation in asked)
    look_up_us = (time.perf_counter() - begun) / len(asked) * 1e6
    if allowed != len(asked):
        raise RuntimeError(f"{allowed} of {len(asked)} questions were allowed")
    gates = [Gate(None, lambda: image), Gate(authorizer, lambda: image)]
    extra_us = {}
    for request in _requests():
        without_us, with_us = (_check_us(gate, request, spec["rounds"]) for gate in gates)
        extra_us[request.api.name] = with_us - without_us
    return {**clock.stop(), "load_s": load_s, "look_up_us": look_up_us, "extra_us": extra_us}


def _rules(count: int) -> Iterator[AclBinding]:
    """Each user may write or read a topic; every tenth rule is prefixed."""
    for number in range(count):
        pattern = PatternType.LITERAL if number % PREFIXED_EVERY else PatternType.PREFIXED
        principal, operation = f"User:user-{number % USERS}", _OPERATIONS[number % 2]
        yield AclBinding(
            ResourceType.TOPIC,
            f"topic-{number // 2}",
            pattern,
            principal,
            "*",
            operation,
            AclPermission.ALLOW,
        )


def _identity(number: int) -> Identity:
    return Identity(user(f"user-{number % USERS}"), "127.0.0.1", "PLAIN")


def _topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def _requests() -> tuple[_Request, ...]:
    """A Produce request of user 0 and a Fetch request of user 1, which the rules allow."""
    topic = _topic_id(0)
    produced = ProduceRequest(1, 1_000, tuple(ProducePartition(topic, part) for part in range(PARTITIONS)))
    parts = tuple(FetchPartition(topic, part, 0, 1) for part in range(PARTITIONS))
    return (
        _Request(_Sender(_identity(0)), registry.PRODUCE, produced, (b"",) * PARTITIONS),
        _Request(_Sender(_identity(1)), registry.FETCH, FetchRequest(0, 1, 1, 0, parts)),
    )


def _check_us(gate: Gate, request: _Request, rounds: int) -> float:
    if gate.check(request) is not None:
        raise RuntimeError(f"a {request.api.name} was refused")
    begun = time.perf_counter()
    for _ in range(rounds):
        gate.check(request)
    return (time.perf_counter() - begun) / rounds * 1e6
