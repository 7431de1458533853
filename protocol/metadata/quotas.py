"""Entities that have quotas, and the names of these. Pure. Source: Kafka QuotaConfig.java."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_RATE, CONSUMER_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, MUTATION_RATE = "request_percentage", "controller_mutation_rate"
ANONYMOUS_USER = "ANONYMOUS"  # of connections that did not say who they are
CONNECTION_RATE = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]  # types and names, by type; no name is the default of that type


def sorted_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """One order for equal entities."""
    return tuple(sorted(((kind, name) for kind, name in parts), key=_part_key))


def sorted_entities(entities: Iterable[Entity]) -> list[Entity]:
    """In a fixed order, defaults first."""
    return sorted(entities, key=lambda entity: [_part_key(part) for part in entity])


def _part_key(part: tuple[str, str | None]) -> tuple[str, bool, str]:
    kind, name = part
    return kind, name is not None, name or ""
