"""CreateAcls, DeleteAcls and DescribeAcls. Pure.

Source: Kafka AclControlManager.java, AclApis.scala.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRequestError, KafkaError
from ...protocol.messages import security as s
from ...protocol.messages.control import ItemError
from ...protocol.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ...protocol.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ...protocol.security.principals import parse_principal
from ...protocol.security.roles import role_of
from .decision import Decision

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage

# Bound: rules in all, which are part of every snapshot: 100,000 of 100 bytes are 10 MB.
MAX_RULES = 100_000
MAX_CHANGES = 10_000  # Bound: rules that one request creates or deletes. Source: Kafka QuorumController.java
MAX_COMPARISONS = 2_000_000  # Bound: filters times rules of one request; about a second
MAX_NAME = 1_000  # Bound: characters of a name, principal or host


def decide_create_acls(image: MetadataImage, request: s.CreateAclsRequest) -> Decision:
    """Each rule succeeds or fails on its own. Errors: InvalidRequestError for too many."""
    if len(request.rules) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(request.rules)} rules, at most {MAX_CHANGES} are allowed")
    results: list[ItemError] = []
    new: dict[AclBinding, None] = {}
    for rule in request.rules:
        try:
            _check_rule(rule)
            _check_role(image, rule)
            if rule not in image.acls and rule not in new:
                check_room(image, len(new) + 1)
                new[rule] = None
        except KafkaError as error:
            results.append(ItemError("", error.code, error.detail))
        else:
            results.append(ItemError(""))
    records = tuple(AccessControlEntryRecord(rule) for rule in new)
    return Decision(records, s.CreateAclsResponse(tuple(results), image.offset + len(records)))


def decide_delete_acls(image: MetadataImage, request: s.DeleteAclsRequest) -> Decision:
    """Each filter succeeds or fails on its own; two may select the same rule.

    Errors: InvalidRequestError for too many filters or rules.
    """
    _check_work(image, request.filters)
    results: list[s.DeletedAcls] = []
    gone: dict[AclBinding, None] = {}
    for each in request.filters:
        try:
            _check_filter(each)
        except KafkaError as error:
            results.append(s.DeletedAcls(error.code, error.detail))
        else:
            found = _selected(image, each)
            results.append(s.DeletedAcls(rules=tuple(found)))
            gone.update(dict.fromkeys(found))
    if len(gone) > MAX_CHANGES:
        raise InvalidRequestError(f"cannot delete {len(gone)} rules at once, at most {MAX_CHANGES}")
    records = tuple(RemoveAccessControlEntryRecord(rule) for rule in gone)
    return Decision(records, s.DeleteAclsResponse(tuple(results), image.offset + len(records)))


def describe_acls(image: MetadataImage, request: s.DescribeAclsRequest) -> Decision:
    """The rules that the filter selects."""
    try:
        _check_filter(request.filter)
    except KafkaError as error:
        return Decision((), s.DescribeAclsResponse(error.code, error.detail))
    return Decision((), s.DescribeAclsResponse(rules=tuple(_selected(image, request.filter))))


def check_room(image: MetadataImage, count: int) -> None:
    """Errors: InvalidRequestError if `count` new rules are too many."""
    if count and len(image.acls) + count > MAX_RULES:
        raise InvalidRequestError(f"there are {MAX_RULES} rules already")


def _check_role(image: MetadataImage, rule: AclBinding) -> None:
    """Errors: InvalidRequestError for a rule of a role that does not exist."""
    name = role_of(rule.principal)
    if name is not None and name not in image.roles:
        raise InvalidRequestError(f"there is no role {name[:100]!r}: create it first")


def _check_work(image: MetadataImage, filters: tuple[AclFilter, ...]) -> None:
    """Errors: InvalidRequestError."""
    if len(filters) > MAX_CHANGES:
        raise InvalidRequestError(f"{len(filters)} filters, at most {MAX_CHANGES} are allowed")
    scans = sum(1 for each in filters if _exact(each) is None)
    if scans > 1 and scans * len(image.acls) > MAX_COMPARISONS:
        raise InvalidRequestError(f"{scans} filters that may select many of {len(image.acls)} rules")


def _selected(image: MetadataImage, given: AclFilter) -> list[AclBinding]:
    exact = _exact(given)
    if exact is not None:
        return [exact] if exact in image.acls else []
    return sorted(rule for rule in image.acls if given.matches(rule))


def _exact(given: AclFilter) -> AclBinding | None:
    """The only rule that a filter may select, if there is only one."""
    if None in given or given.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return None
    if ResourceType.ANY in (given.resource_type, given.operation, given.permission):  # the same code in all
        return None
    return AclBinding(*given)  # type: ignore[arg-type]


def _check_rule(rule: AclBinding) -> None:
    """Errors: InvalidRequestError."""
    if rule.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidRequestError(f"Invalid resourceType {rule.resource_type.name}")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequestError(f"Invalid patternType {rule.pattern_type.name}")
    if rule.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidRequestError(f"Invalid operation {rule.operation.name}")
    if rule.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise InvalidRequestError(f"Invalid permissionType {rule.permission.name}")
    if not rule.name:
        raise InvalidRequestError("Resource name should not be empty")
    if rule.resource_type is ResourceType.CLUSTER and rule.name != CLUSTER_NAME:
        raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    _check_text(rule)


def _check_text(rule: AclBinding) -> None:
    """Errors: InvalidRequestError."""
    for text in (rule.name, rule.principal, rule.host):
        if len(text) > MAX_NAME:
            raise InvalidRequestError(f"{text[:50]!r}... has more than {MAX_NAME} characters")
    try:
        parse_principal(rule.principal)
        if "/" in rule.host:
            ipaddress.ip_network(rule.host, strict=False)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
    if not rule.host:
        raise InvalidRequestError("Host should not be empty")


def _check_filter(given: AclFilter) -> None:
    """Errors: InvalidRequestError."""
    if ResourceType.UNKNOWN in (given.resource_type, given.pattern_type):
        raise InvalidRequestError("Unknown patternFilter.")
    if AclOperation.UNKNOWN in (given.operation, given.permission):
        raise InvalidRequestError("Unknown entryFilter.")
