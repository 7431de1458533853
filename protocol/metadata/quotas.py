"""Quota entities and quota names. Pure. Source: Kafka QuotaConfig.java."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..security.principals import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_RATE, CONSUMER_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, MUTATION_RATE = "request_percentage", "controller_mutation_rate"
ANONYMOUS_USER = ANONYMOUS.name  # the user of unauthenticated connections
CONNECTION_RATE = "connection_creation_rate"

# (type, name) pairs sorted by type; name None is the default of that type
Entity = tuple[tuple[str, str | None], ...]


def sorted_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The canonical order of an entity's parts."""
    return tuple(sorted(((kind, name) for kind, name in parts), key=_part_key))


def sorted_entities(entities: Iterable[Entity]) -> list[Entity]:
    """A fixed order of entities, defaults first."""
    return sorted(entities, key=lambda entity: [_part_key(part) for part in entity])


def _part_key(part: tuple[str, str | None]) -> tuple[str, bool, str]:
    kind, name = part
    return kind, name is not None, name or ""
