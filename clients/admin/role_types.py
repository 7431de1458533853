"""Results of the admin client about roles, namespaces and feature levels. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RoleDescription:
    """A role and its members, principals like `User:alice`. Its rules are those of the principal
    `Role:name`, which `describe_acls` gives."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamespaceDescription:
    """A namespace: the prefix of its topics, its limits (-1: none), the role that owns it ("": none), and
    what is in it."""

    prefix: str
    max_topics: int
    max_partitions: int
    owner: str
    topics: int
    partitions: int


class FeatureLevel(NamedTuple):
    """The level of a feature, 0: disabled, and the levels that it can have."""

    level: int
    min_level: int
    max_level: int
