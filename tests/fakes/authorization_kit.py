"""Requests and responses of every api that name resources, and an authorizer with exactly the rights of a
test."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
from headrace.protocol.errors import KafkaError
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import MetadataRequest, ProduceRequest
from headrace.protocol.messages.envelope import Api
from headrace.protocol.metadata.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from headrace.protocol.security.acls import CLUSTER_NAME, AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.required_operations import REQUIRED, Need, Right, Scope
from headrace.runtime.authorization.access import Access, refusal
from headrace.runtime.authorization.outcomes import Answered, Check

T, G, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
U = ResourceType.USER
PREFIX = {T: "topic", G: "group", X: "transaction", U: "user"}
OWNERS = ("own", "other")
# Fields that name resources, in requests, responses and records.
_KINDS = {
    "group_id": G,
    "group_ids": G,
    "transactional_id": X,
    "transactional_ids": X,
    "topic": T,
    "topics": T,
    "name": T,
    "names": T,
    "subscribed_topic_names": T,
    "source_topics": T,
    "repartition_sink_topics": T,
    "owner": U,
}
_CLIENT = ("User:ANONYMOUS", "")  # principal and host of the connection of a test
AnyRight = tuple[AclOperation, ResourceType, str]


def name_of(kind: ResourceType, owner: str) -> str:
    """The name of a resource; the client of a test has no rights for some of these resources."""
    return CLUSTER_NAME if kind is ResourceType.CLUSTER else f"{owner}-{PREFIX[kind]}"


def id_of(owner: str) -> bytes:
    """The topic id of a topic name."""
    return owner.encode().ljust(16, b"-")


# Authorization checks find topics by id; no internal topic of a topology exists.
IMAGE = MetadataImage(offset=5, topic_names={id_of(owner): name_of(T, owner) for owner in OWNERS})


class Rights:
    """An Authorizer that grants exactly these rights to every principal; no right implies another one."""

    is_ready = True

    def __init__(self, rights: Iterable[AnyRight] = ()) -> None:
        self.rights = set(rights)
        self.asked = 0

    def allows(self, _identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        self.asked += 1
        return (operation, resource.type, resource.name) in self.rights

    def allows_some(self, _identity: Identity, operation: AclOperation, kind: ResourceType) -> bool:
        return any((operation, kind) == right[:2] for right in self.rights)


class Case(typing.NamedTuple):
    """A request of an api. The requirements for resources of the types `kinds` apply to it; those for topics
    only with a scope in `scopes`."""

    api: Api
    body: Any
    kinds: frozenset[ResourceType] = frozenset((*PREFIX, ResourceType.CLUSTER))
    scopes: frozenset[Scope] = frozenset(Scope) - {Scope.CREATED}

    @property
    def label(self) -> str:
        return f"{self.api.name} {sorted(kind.name for kind in self.kinds)}"


# --- requests and responses of all apis -------------------------------------------------------------------


def example(kind: Any, owners: tuple[str, ...] = OWNERS, field: str = "", **given: Any) -> Any:
    """A value of a message's type: a sequence that names resources has one element for each owner."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if field in given:
        return given[field]
    if origin in (typing.Union, types.UnionType):
        return example(next(each for each in inner if each is not type(None)), owners, field, **given)
    if origin is tuple:
        return _example_tuple(inner, owners, field, given)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct | tuple):
        hints = typing.get_type_hints(kind)
        names = kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else kind._fields
        return kind(**{name: example(hints[name], owners, name, **given) for name in names})
    return _plain_example(kind, owners[0] if owners else "", field)


def _example_tuple(
    inner: tuple[Any, ...], owners: tuple[str, ...], field: str, given: dict[str, Any]
) -> tuple[Any, ...]:
    if inner[-1] is not Ellipsis:
        return tuple(example(each, owners[:1], field, **given) for each in inner)
    if _names_nothing(inner[0], field):
        return (example(inner[0], owners[:1], field, **given),)
    return tuple(example(inner[0], (owner,), field, **given) for owner in owners)


def _plain_example(kind: Any, owner: str, field: str) -> Any:
    if kind is str:
        return name_of(_KINDS[field], owner) if field in _KINDS else "text"
    if kind is bytes:
        return id_of(owner) if field in ("topic_id", "topic_ids") else b""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    return kind() if isinstance(kind, type) and not issubclass(kind, dict) else {}


def _names_nothing(kind: Any, field: str) -> bool:
    """Whether a value of this type names no resource."""
    return kind in (int, float, bool) or (kind in (str, bytes) and field not in (*_KINDS, "topic_ids"))


_ONLY = {each: frozenset((each,)) for each in ResourceType}
_NAMED, _LISTED = frozenset((Scope.REQUEST, Scope.EACH)), frozenset((Scope.SHOWN,))
_TOPICS = tuple(name_of(T, each) for each in OWNERS)


def cases_of(api: Api) -> list[Case]:
    """Requests that name a permitted and a forbidden resource; and, where the api has it, a request for
    all."""
    whole = Case(api, example(api.request))
    special: dict[Api, Callable[[], list[Case]]] = {
        registry.FETCH: lambda: [
            Case(api, example(api.request, replica_id=-1), _ONLY[T]),
            Case(api, example(api.request, replica_id=2), _ONLY[ResourceType.CLUSTER]),
        ],
        registry.INIT_PRODUCER_ID: lambda: [
            whole._replace(kinds=_ONLY[X]),
            Case(api, example(api.request, transactional_id=None), _ONLY[ResourceType.CLUSTER]),
        ],
        registry.FIND_COORDINATOR: lambda: [
            Case(api, example(api.request, key_type=number, keys=names), _ONLY[kind])
            for number, kind in ((0, G), (1, X))
            for names in [tuple(name_of(kind, each) for each in OWNERS)]
        ],
        registry.METADATA: lambda: [
            Case(api, example(api.request, topics=None, topic_ids=()), scopes=_LISTED),
            Case(api, example(api.request, topics=()), scopes=_NAMED),
            Case(api, example(api.request, topics=_TOPICS, topic_ids=()), scopes=_NAMED),
        ],
        registry.CONSUMER_GROUP_HEARTBEAT: lambda: [
            Case(api, example(api.request, reader=_CLIENT), scopes=_NAMED),
            Case(
                api,
                example(api.request, subscribed_topic_names=None, owned=None, reader=_CLIENT),
                scopes=_LISTED,
            ),
        ],
        registry.STREAMS_GROUP_HEARTBEAT: lambda: [Case(api, example(api.request, client=_CLIENT))],
        registry.OFFSET_FETCH: lambda: [
            whole._replace(scopes=_NAMED),
            Case(api, example(api.request, topics=None), scopes=_LISTED),
        ],
        registry.DESCRIBE_CONFIGS: lambda: [_config_case(api, *each) for each in _CONFIG_TYPES.items()],
        registry.INCREMENTAL_ALTER_CONFIGS: lambda: [
            _config_case(api, *each) for each in _CONFIG_TYPES.items()
        ],
    }
    return special.get(api, lambda: [whole])()


_CONFIG_TYPES = {TOPIC_RESOURCE: T, GROUP_RESOURCE: G, BROKER_RESOURCE: ResourceType.CLUSTER}


def _config_case(api: Api, code: int, kind: ResourceType) -> Case:
    resource = typing.get_type_hints(registry.DESCRIBE_CONFIGS.request)["resources"]
    one = typing.get_args(resource)[0]
    asked = tuple(one(code, "" if kind is ResourceType.CLUSTER else name_of(kind, each)) for each in OWNERS)
    if api is registry.INCREMENTAL_ALTER_CONFIGS:
        entry = typing.get_args(typing.get_type_hints(api.request)["resources"])[0]
        asked = tuple(entry(each, ()) for each in asked)
    return Case(api, api.request(asked), _ONLY[kind])


def response_to(case: Case, body: Any) -> Any:
    """The response of a handler to `body`, the authorized part of the case's request."""
    owners = tuple(each for each in OWNERS if _is_about(case, body, each))
    if case.api in (registry.LIST_GROUPS, registry.LIST_TRANSACTIONS, registry.CONSUMER_GROUP_HEARTBEAT):
        owners = OWNERS
    if case.api is registry.METADATA and body.topics is None and not body.topic_ids:
        owners = OWNERS
    if case.api is registry.OFFSET_FETCH:
        return _fetched_offsets(case, body)
    secret_topics = {"topic": name_of(T, "other")} if _describes_others(case.api) else {}
    answer = example(case.api.response, owners, **secret_topics)
    if case.api in (registry.DESCRIBE_CONFIGS, registry.INCREMENTAL_ALTER_CONFIGS):
        (first, *_) = example(case.api.response).results
        answer = msgspec.structs.replace(answer, results=(first,) * len(body.resources))
    return answer


def _describes_others(api: Api) -> bool:
    """Whether the response names topics that the request does not name."""
    return api in (registry.DESCRIBE_TRANSACTIONS, registry.CONSUMER_GROUP_DESCRIBE)


def _fetched_offsets(case: Case, body: Any) -> Any:
    groups, one, offset = [], *_offset_types(case.api)
    for group in body.groups:
        topics = (
            [name_of(T, each) for each in OWNERS]
            if group.topics is None
            else [each.topic for each in group.topics]
        )
        groups.append(one(0, group.group_id, tuple(offset(topic, 0, 0) for topic in topics)))
    return case.api.response(tuple(groups))


def _offset_types(api: Api) -> tuple[Any, Any]:
    one = typing.get_args(typing.get_type_hints(api.response)["groups"])[0]
    return one, typing.get_args(typing.get_type_hints(one)["offsets"])[0]


def _is_about(case: Case, body: Any, owner: str) -> bool:
    found = set(named(body))
    return any(name_of(kind, owner) in found for kind in PREFIX) or id_of(owner) in found


def named(value: Any) -> Iterator[str | bytes]:
    """All texts and ids in a message."""
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from named(getattr(value, field))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from named(each)


def codes(value: Any) -> set[int]:
    """All error codes in a response."""
    found: set[int] = set()
    if isinstance(value, msgspec.Struct):
        found |= {value.error_code} if "error_code" in value.__struct_fields__ else set()
        for field in value.__struct_fields__:
            found |= codes(getattr(value, field))
    elif isinstance(value, tuple | list):
        found.update(*map(codes, value))
    return found


# --- responses to clients with some rights ----------------------------------------------------------------


def needs_of(case: Case) -> list[Need]:
    """The requirements that apply to the request of a case."""
    return [
        need
        for need in REQUIRED[case.api.key].needs
        if need.right.resource_type in case.kinds
        and (need.right.resource_type is not T or need.scope in case.scopes)
    ]


def resources_of(need: Need) -> list[str]:
    """The names of the resources for which the request needs the right."""
    kind = need.right.resource_type
    return list(dict.fromkeys(name_of(kind, owner) for owner in OWNERS))


def enough(case: Case, *, by_alternative: bool = False) -> set[AnyRight]:
    """Exactly the rights that the request needs."""
    rights: set[AnyRight] = set()
    for need in needs_of(case):
        right, names = need.right, resources_of(need)
        if by_alternative and need.alternative is not None:
            right = need.alternative
            names = [name_of(right.resource_type, OWNERS[0])]
        rights |= {(right.operation, right.resource_type, name) for name in names}
    return rights


class Got(typing.NamedTuple):
    """The result of a request: the part that reached the handler, if any, and the response or error."""

    asked: Any
    answer: Any
    error: KafkaError | None = None


def run(case: Case, check: Check, rights: Iterable[AnyRight]) -> Got:
    """Send the request of a client with these rights."""
    access = Access(Rights(rights), Identity(), IMAGE)
    try:
        outcome = check(access, case.body, _frames(case.body))
    except KafkaError as error:
        return Got(None, None, error)
    if outcome is None:
        return Got(case.body, response_to(case, case.body))
    if isinstance(outcome, Answered):
        return Got(None, outcome.response)
    assert outcome.frames == _frames(outcome.body), "frames belong to other entries"
    return Got(outcome.body, outcome.merge(response_to(case, outcome.body)))


def _frames(body: Any) -> list[bytes]:
    """The frames of a Produce: each names its topic."""
    return [entry.topic_id for entry in body.partitions] if isinstance(body, ProduceRequest) else []


def faults_of(case: Case, check: Check) -> list[str]:
    """Faults of the check, tried with all rights, with those of each alternative, with none, and without each
    needed right."""
    whole, found = response_to(case, case.body), []
    for by_alternative in (False, True):
        got = run(case, check, enough(case, by_alternative=by_alternative))
        if got.error is not None or got.asked != case.body or got.answer != whole:
            found.append(f"{case.label}: refused with all rights ({by_alternative=}): {got}")
    if needs_of(case):
        nothing = run(case, check, ())
        if nothing.asked is not None and not _is_empty(nothing.asked) and not _is_listed(case):
            found.append(f"{case.label}: runs without any right")
        found += _secrets(case, nothing, OWNERS)
    for need in needs_of(case):
        for name in resources_of(need):
            right = Right(*need.right)
            rights = enough(case) - {(right.operation, right.resource_type, name)}
            if not _is_refused(case, need, name, run(case, check, rights)):
                found.append(f"{case.label}: {right} for {name} is not required")
    return found


def _is_empty(body: Any) -> bool:
    """Whether the request reads only the list of nodes, which needs no right."""
    return isinstance(body, MetadataRequest) and body.topics == () and not body.topic_ids


def _is_listed(case: Case) -> bool:
    """Whether the request lists all resources that the client may describe."""
    return any(need.scope is Scope.SHOWN for need in needs_of(case))


def _secrets(case: Case, got: Got, owners: Iterable[str]) -> list[str]:
    """Names in a response that the request does not have and the client may not describe."""
    known = set(named(case.body))
    names = {name_of(kind, owner) for kind in PREFIX for owner in owners}
    return [
        f"{case.label}: {name} is in the response"
        for name in names & {each for each in named(got.answer) if isinstance(each, str)} - known
    ]


def _is_refused(case: Case, need: Need, name: str, got: Got) -> bool:
    """Whether the request, without this right for this resource, got the error that the table requires."""
    code = refusal(need.right.resource_type).code
    topic_id = next((each for each, known in IMAGE.topic_names.items() if known == name), None)
    if got.error is not None:
        return need.scope is Scope.REQUEST and got.error.code == code
    if need.scope is Scope.REQUEST:
        # The list to which the right applies may be without this resource.
        return name not in set(named(case.body)) and name != CLUSTER_NAME
    is_named = name in set(named(case.body)) or topic_id in set(named(case.body))
    if need.scope is Scope.EACH and (is_named or name == CLUSTER_NAME):
        ran = set() if got.asked is None else set(named(got.asked))
        return name not in ran and topic_id not in ran and code in codes(got.answer)
    if need.scope is Scope.EACH and name in set(named(response_to(case, case.body))):
        return name not in set(named(got.answer)) and code in codes(got.answer)
    return not {name, topic_id} & set(named(got.answer))
