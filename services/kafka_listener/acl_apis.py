"""DescribeAcls, CreateAcls and DeleteAcls. Pure. Source: Kafka AclApis.scala."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.messages import registry
from ...protocol.messages import security as s
from ...protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from .calls import Call, KafkaApi

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import IntEnum

    from ...protocol.messages.control import ItemError

E = TypeVar("E", bound="IntEnum")


def _describe(call: Call) -> None:
    def done(response: s.DescribeAclsResponse) -> None:
        call.answer(_described(response.error_code, response.error_detail, response.rules))

    call.ask(registry.DESCRIBE_ACLS, s.DescribeAclsRequest(_filter(call.body)), done)


def _described(code: int, text: str, rules: Sequence[AclBinding]) -> dict[str, Any]:
    """The rules of each resource pattern together."""
    by_pattern = groupby(sorted(rules), key=lambda rule: rule[:3])
    resources = [
        {**_pattern(pattern), "acls": [_entry(rule) for rule in found]} for pattern, found in by_pattern
    ]
    return {"error_code": code, "error_message": text or None, "resources": resources}


def _describe_failed(_call: Call, code: int, text: str) -> dict[str, Any]:
    return _described(code, text, ())


def _create(call: Call) -> None:
    rules = tuple(_rule(each) for each in call.body.creations)

    def done(response: s.CreateAclsResponse) -> None:
        call.answer({"results": [_result(each) for each in response.results]})

    call.ask(registry.CREATE_ACLS, s.CreateAclsRequest(rules), done)


def _result(result: ItemError | s.DeletedAcls) -> dict[str, Any]:
    return {"error_code": result.error_code, "error_message": result.error_detail or None}


def _create_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return {"results": [{"error_code": code, "error_message": text or None} for _ in call.body.creations]}


def _delete(call: Call) -> None:
    filters = tuple(_filter(each) for each in call.body.filters)

    def done(response: s.DeleteAclsResponse) -> None:
        results = [
            {**_result(each), "matching_acls": [_deleted(rule) for rule in each.rules]}
            for each in response.results
        ]
        call.answer({"filter_results": results})

    call.ask(registry.DELETE_ACLS, s.DeleteAclsRequest(filters), done)


def _deleted(rule: AclBinding) -> dict[str, Any]:
    return {"error_code": 0, "error_message": None, **_pattern(rule), **_entry(rule)}


def _delete_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    error = {"error_code": code, "error_message": text or None, "matching_acls": ()}
    return {"filter_results": [error for _ in call.body.filters]}


def _pattern(rule: Sequence[Any]) -> dict[str, Any]:
    return {"resource_type": int(rule[0]), "resource_name": rule[1], "pattern_type": int(rule[2])}


def _entry(rule: AclBinding) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": int(rule.operation),
        "permission_type": int(rule.permission),
    }


def _rule(creation: Any) -> AclBinding:
    return AclBinding(
        _member(ResourceType, creation.resource_type),
        creation.resource_name,
        _member(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _member(AclOperation, creation.operation),
        _member(AclPermission, creation.permission_type),
    )


def _filter(given: Any) -> AclFilter:
    return AclFilter(
        _member(ResourceType, given.resource_type_filter),
        given.resource_name_filter,
        _member(PatternType, given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        _member(AclOperation, given.operation),
        _member(AclPermission, given.permission_type),
    )


def _member(kind: type[E], code: int) -> E:
    """The member with this code, or UNKNOWN."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


ACL_APIS = (
    KafkaApi(29, "DescribeAcls", 1, 3, _describe, _describe_failed),
    KafkaApi(30, "CreateAcls", 1, 3, _create, _create_failed),
    KafkaApi(31, "DeleteAcls", 1, 3, _delete, _delete_failed),
)
