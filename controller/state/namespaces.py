"""AlterNamespaces and DescribeNamespaces, and the quotas of namespaces. Pure.

A topic counts in every namespace whose prefix its name has, the most specific one and those around it: each
of them has to have room. A quota that is lower than what exists stops creation alone. The rules of an owner
are ordinary rules, which come and go with the namespace's owner.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    DuplicateResourceError,
    InvalidRequestError,
    KafkaError,
    PolicyViolationError,
    ResourceNotFoundError,
)
from ...protocol.messages.control import ItemError
from ...protocol.messages.roles import (
    AlterNamespacesResponse,
    DescribedNamespace,
    DescribeNamespacesResponse,
)
from ...protocol.metadata.namespaces import NO_LIMIT, Namespace, owner_rules
from ...protocol.metadata.records import (
    AccessControlEntryRecord,
    NamespaceRecord,
    RemoveAccessControlEntryRecord,
    RemoveNamespaceRecord,
)
from ...protocol.model import topic_name_fault
from ...runtime.config import MAX_INT
from .acl_rules import check_room
from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.messages.roles import (
        AlterNamespacesRequest,
        DescribeNamespacesRequest,
        NamespaceChange,
    )
    from ...protocol.metadata.image import MetadataImage
    from ...protocol.metadata.records import MetadataRecord
    from ...protocol.security.acls import AclBinding

MAX_NAMESPACES = 1_000  # Bound: in all, and in one request


class Usage(NamedTuple):
    """The topics and partitions in a namespace."""

    topics: int
    partitions: int


def decide_alter_namespaces(image: MetadataImage, request: AlterNamespacesRequest) -> Decision:
    """Each prefix succeeds or fails on its own. Errors: InvalidRequestError for too many."""
    if len(request.changes) > MAX_NAMESPACES:
        raise InvalidRequestError(f"{len(request.changes)} namespaces, at most {MAX_NAMESPACES} are allowed")
    counts = Counter(change.prefix for change in request.changes)
    records: list[MetadataRecord] = []
    results = []
    new = new_rules = 0
    for change in request.changes:
        try:
            if counts[change.prefix] > 1:
                raise DuplicateResourceError("a prefix is named twice")
            made = _change(image, change, new)
            added = sum(isinstance(record, AccessControlEntryRecord) for record in made)
            check_room(image, new_rules + added)
        except KafkaError as error:
            results.append(ItemError(change.prefix, error.code, error.detail))
        else:
            new += change.prefix not in image.namespaces
            new_rules += added
            results.append(ItemError(change.prefix))
            records += made
    end = image.offset + len(records)
    return Decision(tuple(records), AlterNamespacesResponse(tuple(results), end))


def _change(image: MetadataImage, change: NamespaceChange, new: int) -> list[MetadataRecord]:
    """Errors: InvalidRequestError, ResourceNotFoundError."""
    before = image.namespaces.get(change.prefix)
    if change.is_deleted:
        if before is None:
            raise ResourceNotFoundError(f"there is no namespace {change.prefix[:100]!r}")
        return [*_rule_changes(image, owner_rules(before), ()), RemoveNamespaceRecord(change.prefix)]
    fault = topic_name_fault(f"{change.prefix}x" if change.prefix in (".", "..") else change.prefix)
    if fault is not None:
        raise InvalidRequestError(fault.replace("topic name", "namespace's prefix"))
    if before is None and len(image.namespaces) + new >= MAX_NAMESPACES:
        raise InvalidRequestError(f"there are {MAX_NAMESPACES} namespaces already")
    old = before or Namespace(change.prefix)
    after = Namespace(
        change.prefix,
        _limit("topics", change.max_topics, old.max_topics),
        _limit("partitions", change.max_partitions, old.max_partitions),
        old.owner if change.owner is None else change.owner,
    )
    if after.owner and after.owner not in image.roles:
        raise ResourceNotFoundError(f"there is no role {after.owner[:100]!r}")
    rules = [] if after.owner == old.owner else _rule_changes(image, owner_rules(old), owner_rules(after))
    return rules if after == before else [*rules, NamespaceRecord(after)]


def _limit(what: str, wanted: int | None, old: int) -> int:
    """Errors: InvalidRequestError."""
    if wanted is None:
        return old
    if not NO_LIMIT <= wanted <= MAX_INT:
        raise InvalidRequestError(f"a namespace has 0 to {MAX_INT} {what}, or -1 for no limit, not {wanted}")
    return wanted


def _rule_changes(
    image: MetadataImage, old: tuple[AclBinding, ...], new: tuple[AclBinding, ...]
) -> list[MetadataRecord]:
    added = [rule for rule in new if rule not in image.acls]
    removed = [RemoveAccessControlEntryRecord(rule) for rule in old if rule in image.acls]
    return [*removed, *map(AccessControlEntryRecord, added)]


def describe_namespaces(image: MetadataImage, request: DescribeNamespacesRequest) -> Decision:
    """Namespaces with their usage. Errors: InvalidRequestError for too many."""
    if len(request.prefixes) > MAX_NAMESPACES:
        raise InvalidRequestError(f"{len(request.prefixes)} namespaces, at most {MAX_NAMESPACES} are allowed")
    prefixes = tuple(dict.fromkeys(request.prefixes)) or tuple(sorted(image.namespaces))
    usage = _usage_of(image, [each for each in prefixes if each in image.namespaces])
    described = tuple(_described(image, prefix, usage.get(prefix)) for prefix in prefixes)
    return Decision((), DescribeNamespacesResponse(namespaces=described))


def _described(image: MetadataImage, prefix: str, usage: Usage | None) -> DescribedNamespace:
    if usage is None:
        error = ResourceNotFoundError(f"there is no namespace {prefix[:100]!r}")
        return DescribedNamespace(prefix, error.code, error.detail)
    return DescribedNamespace(
        prefix, namespace=image.namespaces[prefix], topics=usage.topics, partitions=usage.partitions
    )


def _usage_of(image: MetadataImage, prefixes: Iterable[str]) -> dict[str, Usage]:
    counts = {prefix: [0, 0] for prefix in prefixes}
    lengths = {len(prefix) for prefix in counts}  # a topic costs a look-up for each, not for each prefix
    for topic in image.topics.values():
        for length in lengths:
            count = counts.get(topic.name[:length])
            if count is not None:
                count[0] += 1
                count[1] += len(topic.partitions)
    return {prefix: Usage(*count) for prefix, count in counts.items()}


class NamespaceQuotas:
    """The quotas of the namespaces around some topics, with what one request has created so far."""

    def __init__(self, image: MetadataImage, names: Iterable[str]) -> None:
        around = sorted(_around(image, names))
        self._namespaces = [image.namespaces[prefix] for prefix in around]
        self._usage = _usage_of(image, around) if around else {}

    def check(self, name: str, topics: int, partitions: int) -> None:
        """Errors: PolicyViolationError if a namespace has no room for more topics or partitions with this
        name; the most specific one is named."""
        for namespace in reversed(self._namespaces):
            if name.startswith(namespace.prefix):
                used = self._usage[namespace.prefix]
                _check_room(namespace, "topics", namespace.max_topics, used.topics, topics)
                _check_room(namespace, "partitions", namespace.max_partitions, used.partitions, partitions)

    def take(self, name: str, topics: int, partitions: int) -> None:
        """Count what is created."""
        for prefix, used in self._usage.items():
            if name.startswith(prefix):
                self._usage[prefix] = Usage(used.topics + topics, used.partitions + partitions)


def _around(image: MetadataImage, names: Iterable[str]) -> set[str]:
    """The prefixes of the namespaces that some names are in."""
    namespaces = image.namespaces
    if not namespaces:
        return set()
    lengths = sorted({len(prefix) for prefix in namespaces})
    return {name[:length] for name in names for length in lengths if name[:length] in namespaces}


def _check_room(namespace: Namespace, what: str, limit: int, used: int, more: int) -> None:
    """Errors: PolicyViolationError."""
    if more and limit != NO_LIMIT and used + more > limit:
        raise PolicyViolationError(
            f"namespace {namespace.prefix!r} may have {limit} {what}: it has {used}, and {more} more were"
            " asked for"
        )
