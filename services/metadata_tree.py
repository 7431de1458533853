"""A metadata image as a tree of folders and JSON values, as in Kafka's metadata shell. Pure.

Secrets are not in the tree: SCRAM credentials show their iterations, configs with sensitive or unknown keys
show `(hidden)`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ..protocol.errors import HeadraceError
from ..protocol.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ..protocol.metadata.records import UserScramCredentialRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..protocol.metadata.image import MetadataImage, TopicImage
    from ..protocol.metadata.records import MetadataRecord

_RESOURCES = {
    TOPIC_RESOURCE: "topic",
    BROKER_RESOURCE: "broker",
    BROKER_LOGGER_RESOURCE: "broker-logger",
    CLIENT_METRICS_RESOURCE: "client-metrics",
    GROUP_RESOURCE: "group",
}
HIDDEN = "(hidden)"
ALL_NODES = "<default>"


class Folder(dict[str, "Folder | Leaf"]):
    """Entries by name, in order."""


class Leaf(msgspec.Struct, frozen=True):
    """A value that JSON can have."""

    value: Any


class NoSuchPathError(HeadraceError):
    """The tree has no such path."""


def tree_of(image: MetadataImage, is_shown: Callable[[str], bool]) -> Folder:
    """The root folder. `is_shown`: whether values of a config key may be shown."""
    names = {topic.topic_id.hex(): Leaf(topic.name) for topic in image.topics.values()}
    topics = {name: _topic(image.topics[name]) for name in sorted(image.topics)}
    scram: dict[str, dict[str, int]] = {}
    for (user, mechanism), credential in sorted(image.scram_credentials.items()):
        scram.setdefault(user, {})[mechanism.sasl_name] = credential.iterations
    roles = {
        role: _leaves({member: None for owner, member in sorted(image.role_members) if owner == role})
        for role in sorted(image.roles)
    }
    return Folder(
        {
            "cluster": _leaves(
                {
                    "id": image.cluster_id,
                    "last-offset": image.offset,
                    "next-node-id": image.next_node_id,
                    "next-producer-id": image.next_producer_id,
                }
            ),
            "brokers": _leaves({str(node): plain(image.brokers[node]) for node in sorted(image.brokers)}),
            "topics": Folder({"by-name": _folder(topics), "by-id": _folder(dict(sorted(names.items())))}),
            "configs": _configs(image, is_shown),
            "features": _leaves(dict(sorted(image.features.items()))),
            "quotas": _folder(
                {_entity(entity): _leaves(dict(values)) for entity, values in image.client_quotas.items()}
            ),
            "acls": _leaves({str(index): plain(rule) for index, rule in enumerate(sorted(image.acls))}),
            "scram": _folder({user: _leaves(mine) for user, mine in scram.items()}),
            "delegation-tokens": _leaves(
                {name: plain(token) for name, token in sorted(image.delegation_tokens.items())}
            ),
            "roles": _folder(roles),
            "namespaces": _leaves({name: plain(each) for name, each in sorted(image.namespaces.items())}),
        }
    )


def find(root: Folder, path: str) -> Folder | Leaf:
    """The entry at an absolute path. Errors: NoSuchPathError."""
    node: Folder | Leaf = root
    for name in parts_of(path):
        if isinstance(node, Leaf) or name not in node:
            raise NoSuchPathError(f"{path}: no such path; `ls` lists what is there")
        node = node[name]
    return node


def parts_of(path: str, base: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of a path, which may be relative to `base` and have `.` and `..`."""
    found = [] if path.startswith("/") else list(base)
    for name in path.split("/"):
        if name == "..":
            del found[-1:]
        elif name not in ("", "."):
            found.append(name)
    return tuple(found)


def walk(node: Folder | Leaf, path: str) -> Iterator[tuple[str, Folder | Leaf]]:
    """The entry and all below it, with their paths."""
    yield path or "/", node
    if isinstance(node, Folder):
        for name, each in node.items():
            yield from walk(each, f"{path.rstrip('/')}/{name}")


def plain_record(record: MetadataRecord, is_shown: Callable[[str], bool]) -> dict[str, Any]:
    """A record of the metadata log with its type, without secrets."""
    kind = record.__struct_config__.tag
    facts = {name: plain(getattr(record, name)) for name in record.__struct_fields__}
    if isinstance(record, UserScramCredentialRecord):
        facts["credential"] = {"iterations": record.credential.iterations, "keys": HIDDEN}
    elif kind == "Config" and not is_shown(str(facts.get("name"))):
        facts["value"] = HIDDEN
    return {"type": kind, **facts}


def plain(value: Any) -> Any:
    """A value as JSON has it; bytes are hexadecimal, enums their names in lower case."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name.lower()
    named = _fields(value)
    if named is not None:
        return {name: plain(each) for name, each in named.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(each) for each in value]
    return value


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record of any kind, but for those that its repr hides; None for another value."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.repr}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, dict):
        return {str(name): each for name, each in value.items()}
    return None


def _topic(topic: TopicImage) -> Folder:
    partitions = {str(number): Leaf(plain(part)) for number, part in enumerate(topic.partitions)}
    return Folder({"id": Leaf(topic.topic_id.hex()), **partitions})


def _configs(image: MetadataImage, is_shown: Callable[[str], bool]) -> Folder:
    kinds: dict[str, dict[str, Folder]] = {}
    for (kind, name), values in sorted(image.configs.items()):
        shown = {key: value if is_shown(key) else HIDDEN for key, value in sorted(values.items())}
        kinds.setdefault(_RESOURCES.get(kind, str(kind)), {})[name or ALL_NODES] = _leaves(shown)
    return _folder({kind: _folder(mine) for kind, mine in kinds.items()})


def _entity(entity: tuple[tuple[str, str | None], ...]) -> str:
    return ",".join(f"{kind}={ALL_NODES if name is None else name}" for kind, name in entity)


def _folder(entries: dict[str, Any]) -> Folder:
    return Folder({quote(name, safe="<>=,:@ *"): each for name, each in entries.items()})


def _leaves(entries: dict[str, Any]) -> Folder:
    return _folder({name: Leaf(value) for name, value in entries.items()})
