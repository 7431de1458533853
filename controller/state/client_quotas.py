"""Client quotas of users, client ids and addresses: altered and described. Pure.

An entity is a user, a client id, both, or an address; without a name it is the default of its kind. Nodes
find the quota that applies to a client. Source: Kafka ClientQuotaControlManager.java, ClientQuotasImage.java;
KIP-546, 599, 612.
"""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, KafkaError, UnsupportedVersionError
from ...protocol.messages import quotas as q
from ...protocol.messages.control import ItemError
from ...protocol.metadata.quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
    sorted_entities,
    sorted_entity,
)
from ...protocol.metadata.records import ClientQuotaRecord
from .decision import Decision

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.metadata.quotas import Entity

# Bound: entities in all, of one request, and characters of a name.
MAX_ENTITIES, MAX_ALTERATIONS, MAX_NAME = 10_000, 1_000, 500
_CLIENT_KEYS = {PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE}
_KEYS = {
    (USER,): _CLIENT_KEYS,
    (CLIENT_ID,): _CLIENT_KEYS,
    (CLIENT_ID, USER): _CLIENT_KEYS,
    (IP,): {CONNECTION_RATE},
}
_WHOLE = {PRODUCER_RATE: 2**63 - 1, CONSUMER_RATE: 2**63 - 1, CONNECTION_RATE: 2**31 - 1}  # and how large


def decide_quotas(image: MetadataImage, request: q.AlterClientQuotasRequest) -> Decision:
    """Each entity succeeds or fails as a whole and on its own."""
    if len(request.alterations) > MAX_ALTERATIONS:
        raise InvalidRequestError(f"{len(request.alterations)} entities, at most {MAX_ALTERATIONS}")
    seen: set[Entity] = set()
    records: list[ClientQuotaRecord] = []
    results = []
    known = set(image.client_quotas)
    for alteration in request.alterations:
        try:
            made = _changes(image, alteration, seen)
            if any(each.value is not None for each in made):
                known.add(made[0].entity)
            if len(known) > max(MAX_ENTITIES, len(image.client_quotas)):
                raise InvalidRequestError(f"there are {MAX_ENTITIES} entities with quotas already")
        except KafkaError as error:
            results.append(ItemError("", error.code, str(error)))
        else:
            results.append(ItemError(""))
            records += made
    if request.validate_only:
        records.clear()
    reply = q.AlterClientQuotasResponse(tuple(results), image.offset + len(records))
    return Decision(tuple(records), reply)


def describe_quotas(image: MetadataImage, request: q.DescribeClientQuotasRequest) -> Decision:
    """The entities that match every component of the filter."""
    try:
        filters = _filter(request.components)
    except KafkaError as error:
        return Decision((), q.DescribeClientQuotasResponse(error.code, str(error)))
    found = tuple(
        q.DescribedQuotas(entity, dict(image.client_quotas[entity]))
        for entity in sorted_entities(image.client_quotas)
        if _matches(dict(entity), filters, is_strict=request.strict)
    )
    return Decision((), q.DescribeClientQuotasResponse(entries=found))


def _changes(
    image: MetadataImage, alteration: q.QuotaAlteration, seen: set[Entity]
) -> list[ClientQuotaRecord]:
    """Errors: InvalidRequestError."""
    entity = sorted_entity(alteration.entity)
    allowed = _keys_of(entity)
    if entity in seen:
        raise InvalidRequestError("an entity is named twice")
    seen.add(entity)
    keys = [change.key for change in alteration.changes]
    if len(set(keys)) != len(keys):
        raise InvalidRequestError("a quota of an entity is changed twice")
    now = image.client_quotas.get(entity, {})
    for change in alteration.changes:
        if change.value is not None or change.key not in now:
            _check_value(change, allowed)
    return [
        ClientQuotaRecord(entity, change.key, change.value)
        for change in alteration.changes
        if now.get(change.key) != change.value
    ]


def _keys_of(entity: Entity) -> set[str]:
    """The quotas allowed for an entity. Errors: InvalidRequestError."""
    types = tuple(kind for kind, _ in entity)
    allowed = _KEYS.get(types)
    if allowed is None:
        raise InvalidRequestError(
            "an entity is a user, a client-id, both, or an ip"
            if types
            else "an entity names at least one of user, client-id and ip"
        )
    for kind, name in entity:
        if name is not None and not 0 < len(name) <= MAX_NAME:
            raise InvalidRequestError(f"the name of a {kind} has 1 to {MAX_NAME} characters")
        if kind == IP and name is not None:
            try:
                ipaddress.ip_address(name)
            except ValueError:
                raise InvalidRequestError(f"{name[:100]!r} is no address") from None
    return allowed


def _check_value(change: q.QuotaChange, allowed: set[str]) -> None:
    """Errors: InvalidRequestError."""
    key, value = change.key, change.value
    if key not in allowed:
        raise InvalidRequestError(f"no quota {key[:100]!r} there; there are {', '.join(sorted(allowed))}")
    if value is None:
        return
    if not (value > 0 and math.isfinite(value)):
        raise InvalidRequestError(f"{key} must be above 0, not {value}")
    if key in _WHOLE and (value != int(value) or value > _WHOLE[key]):
        raise InvalidRequestError(f"{key} must be a whole number, at most {_WHOLE[key]}, not {value}")


def _filter(components: tuple[q.QuotaFilter, ...]) -> dict[str, q.QuotaFilter]:
    """By type. Errors: InvalidRequestError, UnsupportedVersionError."""
    filters: dict[str, q.QuotaFilter] = {}
    for each in components:
        kind = each.entity_type
        if not kind:
            raise InvalidRequestError("a component without a type of entity")
        if kind in filters:
            raise InvalidRequestError(f"two components about {kind[:100]!r}")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersionError(f"no type of entity {kind[:100]!r}")
        if each.match_type not in (q.EXACT, q.DEFAULT, q.SPECIFIED):
            raise InvalidRequestError(f"no match type {each.match_type}")
        if (each.match is None) is (each.match_type == q.EXACT):
            raise InvalidRequestError("an exact match has a name, others have none")
        filters[kind] = each
    if IP in filters and len(filters) > 1:
        raise InvalidRequestError("addresses have nothing to do with users and client ids")
    return filters


def _matches(entity: dict[str, str | None], filters: dict[str, q.QuotaFilter], *, is_strict: bool) -> bool:
    if is_strict and entity.keys() != filters.keys():
        return False
    return all(
        kind in entity and (each.match_type == q.SPECIFIED or entity[kind] == each.match)
        for kind, each in filters.items()
    )
