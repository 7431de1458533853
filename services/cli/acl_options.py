"""Options of `headrace acl` about principals, operations and resources, as rules and filters. Pure."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...protocol.security.acls import (
    CLUSTER_NAME,
    WILDCARD_HOST,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from ...protocol.security.roles import role

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import IntEnum

E = TypeVar("E", bound="IntEnum")

_NAMED = {
    "topic": (ResourceType.TOPIC, "--topic"),
    "group": (ResourceType.GROUP, "--group"),
    "transactional_id": (ResourceType.TRANSACTIONAL_ID, "--transactional-id"),
    "delegation_token": (ResourceType.DELEGATION_TOKEN, "--delegation-token"),
    "on_user": (ResourceType.USER, "--on-user"),
}


def pattern_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The resource: one of --topic, --group, and so on."""
    options = [
        click.option("--topic", metavar="NAME", help="Topic name; * for all topics."),
        click.option("--group", metavar="NAME", help="Group id; * for all groups."),
        click.option("--transactional-id", metavar="NAME", help="Transactional id; * for all."),
        click.option("--delegation-token", metavar="ID", help="Id of a delegation token; * for all."),
        click.option("--on-user", metavar="PRINCIPAL", help="Owner of delegation tokens, as User:alice."),
        click.option("--on-cluster", is_flag=True, help="The cluster as the resource."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def rule_options(*, is_filter: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of rules; of a filter each may be given once."""
    many = "" if is_filter else "; repeatable"

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            click.option(
                "--user",
                "users",
                multiple=True,
                metavar="NAME",
                help=f"User, or principal such as User:alice; * for all users{many}.",
            ),
            click.option("--role", "roles", multiple=True, metavar="NAME", help=f"A role{many}."),
            click.option(
                "--host", "hosts", multiple=True, help=f"Client address, or block such as 10.0.0.0/8{many}."
            ),
            click.option(
                "--operation",
                "operations",
                multiple=True,
                metavar="NAME",
                help=f"Operation, such as read, write or all{many}.",
            ),
            click.option("--prefixed", is_flag=True, help="Take the name of the resource as a prefix."),
        ]
        for option in reversed(options):
            command = option(command)
        return pattern_options(command)

    return decorate


def member_of(kind: type[E], text: str) -> E:
    """The member with this name, in any case and with hyphens or underscores, or without, as Kafka's tools
    have it. Errors: click.UsageError."""
    wanted = text.replace("-", "").replace("_", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == wanted and member.name != "UNKNOWN":
            return member
    names = ", ".join(each.name.lower().replace("_", "-") for each in kind if each > 1)
    raise click.UsageError(f"{text!r} is none of {names}")


def principal_text(text: str) -> str:
    """`alice` as `User:alice`; a principal as it is."""
    return text if ":" in text else f"User:{text}"


def one_resource(given: dict[str, Any]) -> Resource:
    """The resource of the options. Errors: click.UsageError unless there is exactly one."""
    found = _resources(given)
    if len(found) != 1:
        raise click.UsageError(f"give one of {_OPTIONS}")
    return found[0]


def rules_of(given: dict[str, Any]) -> list[AclBinding]:
    """All combinations of the options. Errors: click.UsageError."""
    principals = _principals(given)
    if not principals:
        raise click.UsageError("give --user NAME, --role NAME, or --user '*' for all users")
    if not given["operations"]:
        raise click.UsageError("give --operation, such as read or write")
    resources = _resources(given)
    if not resources:
        raise click.UsageError(f"give one of {_OPTIONS}")
    pattern = PatternType.PREFIXED if given["prefixed"] else PatternType.LITERAL
    permission = AclPermission.DENY if given["deny"] else AclPermission.ALLOW
    operations = [member_of(AclOperation, text) for text in given["operations"]]
    combinations = product(resources, principals, given["hosts"] or (WILDCARD_HOST,), operations)
    return [
        AclBinding(kind, name, pattern, principal, host, operation, permission)
        for (kind, name), principal, host, operation in combinations
    ]


def filter_of(given: dict[str, Any]) -> AclFilter:
    """The filter of the options. Errors: click.UsageError for an option given twice."""
    resources, principals = _resources(given), _principals(given)
    for what, values in (
        ("resource", resources),
        ("user or role", principals),
        *((key, given[key]) for key in ("hosts", "operations")),
    ):
        if len(values) > 1:
            raise click.UsageError(f"a filter has one of {what}, not {len(values)}")
    kind, name = resources[0] if resources else (ResourceType.ANY, None)
    deny = given["deny"]
    return AclFilter(
        kind,
        name,
        _pattern_of(given),
        principals[0] if principals else None,
        given["hosts"][0] if given["hosts"] else None,
        member_of(AclOperation, given["operations"][0]) if given["operations"] else AclOperation.ANY,
        AclPermission.ANY if deny is None else AclPermission.DENY if deny else AclPermission.ALLOW,
    )


def _principals(given: dict[str, Any]) -> list[str]:
    return [*map(principal_text, given["users"]), *(str(role(name)) for name in given["roles"])]


def _pattern_of(given: dict[str, Any]) -> PatternType:
    if given.get("matching"):
        return PatternType.MATCH
    return PatternType.PREFIXED if given["prefixed"] else PatternType.ANY


def _resources(given: dict[str, Any]) -> list[Resource]:
    found = [Resource(kind, given[key]) for key, (kind, _) in _NAMED.items() if given[key] is not None]
    if given["on_cluster"]:
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME))
    return found


_OPTIONS = ", ".join([*(option for _, option in _NAMED.values()), "--on-cluster"])
