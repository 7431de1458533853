"""Version 3: rules of authorization (ACLs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from ...protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ..web.problems import Problem
from ..web.routes import Route, text
from .shapes import Acl, DeletedAcls, ListMetadata, Metadata, NewAcl, NewAcls, Page
from .v3_clusters import CLUSTER, links_of

if TYPE_CHECKING:
    from enum import IntEnum

    from ..web.calls_io import Call
    from .links import Links

E = TypeVar("E", bound="IntEnum")
_TAG = "v3 ACLs"
_ACLS = f"{CLUSTER}/acls"
_REQUIRED = ("resource_type", "pattern_type", "operation", "permission")


async def _search(call: Call) -> Page[Acl]:
    links = await links_of(call)
    rules = await call.clients.admin.describe_acls(_filter(call))
    query = f"?{urlencode(call.query)}" if call.query else ""
    metadata = ListMetadata(links.url("acls") + query)
    return Page("KafkaAclList", metadata, [_acl(links, rule) for rule in rules])


async def _create(call: Call) -> None:
    await links_of(call)
    await _add(call, [await call.json(NewAcl)])


async def _create_batch(call: Call) -> None:
    await links_of(call)
    await _add(call, (await call.json(NewAcls)).data)


async def _delete(call: Call) -> DeletedAcls:
    links = await links_of(call)
    for name in _REQUIRED:
        if not call.text(name):
            raise Problem(400, f"parameter {name} is required: ANY selects all", 40002)
    selected = _filter(call)
    deleted = (await call.clients.admin.delete_acls(selected))[selected]
    return DeletedAcls([_acl(links, rule) for rule in deleted])


async def _add(call: Call, wanted: list[NewAcl]) -> None:
    rules = [
        AclBinding(
            _member(ResourceType, "resource_type", each.resource_type),
            each.resource_name,
            _member(PatternType, "pattern_type", each.pattern_type),
            each.principal,
            each.host,
            _member(AclOperation, "operation", each.operation),
            _member(AclPermission, "permission", each.permission),
        )
        for each in wanted
    ]
    (await call.clients.admin.create_acls(*rules)).raise_for_errors()


def _filter(call: Call) -> AclFilter:
    given = call.text
    return AclFilter(
        _member(ResourceType, "resource_type", given("resource_type") or "ANY"),
        given("resource_name") or None,
        _member(PatternType, "pattern_type", given("pattern_type") or "ANY"),
        given("principal") or None,
        given("host") or None,
        _member(AclOperation, "operation", given("operation") or "ANY"),
        _member(AclPermission, "permission", given("permission") or "ANY"),
    )


def _member(kind: type[E], name: str, value: str) -> E:
    names = [each.name for each in kind if each.name != "UNKNOWN"]
    if value.upper() not in names:
        raise Problem(400, f"{name} must be one of {', '.join(names)}, not {value[:50]!r}", 40002)
    return kind[value.upper()]


def _acl(links: Links, rule: AclBinding) -> Acl:
    fields = {
        "resource_type": rule.resource_type.name,
        "resource_name": rule.name,
        "pattern_type": rule.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }
    link = f"{links.url('acls')}?{urlencode(fields)}"
    return Acl(
        metadata=Metadata(link, f"crn:///kafka={links.cluster_id}"), cluster_id=links.cluster_id, **fields
    )


def _names(kind: type[IntEnum]) -> tuple[str, ...]:
    return tuple(each.name for each in kind if each.name != "UNKNOWN")


_PARAMS = (
    text("resource_type", "Type of the resource.", *_names(ResourceType)),
    text("resource_name", "Name of the resource."),
    text("pattern_type", "Type of the pattern.", *_names(PatternType)),
    text("principal", "Such as User:alice."),
    text("host", "Address of clients, or *."),
    text("operation", "Operation.", *_names(AclOperation)),
    text("permission", "ALLOW or DENY.", *_names(AclPermission)),
)
ROUTES = (
    Route("GET", _ACLS, _search, "Search rules", _TAG, None, Page[Acl], params=_PARAMS),
    Route("POST", _ACLS, _create, "Create a rule", _TAG, NewAcl, status=201),
    Route("POST", f"{_ACLS}:batch", _create_batch, "Create rules", _TAG, NewAcls, status=201),
    Route("DELETE", _ACLS, _delete, "Delete rules", _TAG, None, DeletedAcls, params=_PARAMS),
)
