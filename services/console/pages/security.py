"""Access rules, users and roles."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ....clients.admin.security_types import ScramPassword
from ....protocol.errors import ConfigError, HeadraceError
from ....protocol.security.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ....protocol.security.scram import SCRAM_MECHANISMS, ScramMechanism
from ...web.problems import text_of_error
from ..page import Page
from .cluster import first_error

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..visit import Visit

E = TypeVar("E", bound=IntEnum)


async def acls(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The access rules, and the form for one."""
    trouble, found = "", list[AclBinding]()
    try:
        found = await visit.admin.describe_acls()
    except HeadraceError as failure:
        trouble = text_of_error(failure)
    wanted = visit.text("q").lower()
    rows = sorted(rule for rule in found if wanted in rule.principal.lower() or wanted in rule.name.lower())
    return visit.render(
        "acls.html",
        status,
        list=visit.paged(rows),
        q=visit.text("q"),
        types=[each.name for each in OPERATIONS_OF],
        operations=[each.name for each in AclOperation if each > AclOperation.ANY],
        trouble=trouble,
        form=visit.form if status != 200 else {},
        error=error,
        tab="acls",
    )


async def change_acl(visit: Visit) -> Response:
    """Create or delete one rule."""
    is_deletion = bool(visit.field("delete"))
    action, target = "delete rule" if is_deletion else "create rule", ""
    try:
        rule = _rule(visit)
        target = rule_text(rule)
        if is_deletion:
            deleted = await visit.admin.delete_acls(AclFilter(*rule))
            deleted.raise_for_errors()
        else:
            (await visit.admin.create_acls(rule)).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await acls(visit, visit.failed(action, target, first_error(failure)), 400)
    visit.did(action, target)
    return visit.see("/acls", f"{'deleted' if is_deletion else 'created'}: {target}")


def _rule(visit: Visit) -> AclBinding:
    """The rule in the form. Errors: ConfigError."""
    kind = member(ResourceType, visit.field("type"))
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else visit.field("name")
    principal = visit.field("principal")
    if not name:
        raise ConfigError("name the resource; * is all of its type")
    if not principal.partition(":")[2]:
        raise ConfigError("a principal is like User:alice, Role:operators or User:*")
    return AclBinding(
        kind,
        name,
        member(PatternType, visit.field("pattern") or "LITERAL"),
        principal,
        visit.field("host") or "*",
        member(AclOperation, visit.field("operation")),
        member(AclPermission, visit.field("permission") or "ALLOW"),
    )


def rule_text(rule: AclBinding) -> str:
    """A rule in one line."""
    return (
        f"{rule.permission.name} {rule.principal} from {rule.host}: {rule.operation.name} on "
        f"{rule.resource_type.name} {rule.name} ({rule.pattern_type.name})"
    )


def member(kind: type[E], text: str) -> E:
    """The member of an enumeration by its name. Errors: ConfigError."""
    found = kind.__members__.get(text.upper())
    if found is None:
        raise ConfigError(f"{text[:40]!r} is none of {', '.join(kind.__members__)}")
    return found


async def users(visit: Visit, error: str = "", status: int = 200) -> Response:
    """The users with SCRAM credentials."""
    trouble, rows = "", []
    try:
        found = await visit.admin.describe_users()
        rows = [(name, found[name]) for name in sorted(found) if name not in found.errors]
    except HeadraceError as failure:
        trouble = text_of_error(failure)
    return visit.render(
        "users.html",
        status,
        list=visit.paged(rows),
        mechanisms=list(SCRAM_MECHANISMS),
        trouble=trouble,
        error=error,
        tab="users",
    )


async def change_user(visit: Visit) -> Response:
    """Set the password of a user, or delete a credential."""
    name, mechanism = visit.field("name"), SCRAM_MECHANISMS.get(visit.field("mechanism"))
    is_deletion = bool(visit.field("delete"))
    action = "delete credential" if is_deletion else "set password"
    try:
        if not name:
            raise ConfigError("name the user")
        if is_deletion:
            if mechanism is None:
                raise ConfigError(f"a mechanism is one of {', '.join(SCRAM_MECHANISMS)}")
            (await visit.admin.delete_passwords({name: mechanism})).raise_for_errors()
        else:
            await _set_password(visit, name, [mechanism] if mechanism else list(SCRAM_MECHANISMS.values()))
    except (HeadraceError, ExceptionGroup) as failure:
        return await users(visit, visit.failed(action, f"user {name}", first_error(failure)), 400)
    visit.did(action, f"user {name}")
    return visit.see("/users", f"{action}: {name}")


async def _set_password(visit: Visit, name: str, mechanisms: list[ScramMechanism]) -> None:
    password = visit.raw_field("password")
    if password != visit.raw_field("again"):
        raise ConfigError("the two passwords differ")
    for mechanism in mechanisms:
        results = await visit.admin.set_passwords({name: ScramPassword(password, mechanism)})
        results.raise_for_errors()


async def roles(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Roles and their members."""
    trouble, rows = "", []
    try:
        found = await visit.admin.describe_roles()
        rows = [found[name] for name in sorted(found) if name not in found.errors]
    except HeadraceError as failure:
        trouble = text_of_error(failure)
    return visit.render("roles.html", status, rows=rows, trouble=trouble, error=error, tab="roles")


async def change_role(visit: Visit) -> Response:
    """Create or delete a role, or change its members."""
    role, principal, action = visit.field("role"), visit.field("principal"), visit.field("action")
    target = f"role {role}" + (f", {principal}" if principal else "")
    try:
        if action == "create":
            results = await visit.admin.create_roles(role)
        elif action == "delete":
            results = await visit.admin.delete_roles(role)
        elif action == "grant":
            results = await visit.admin.grant_role(role, principal)
        elif action == "revoke":
            results = await visit.admin.revoke_role(role, principal)
        else:
            raise ConfigError("create, delete, grant or revoke")
        results.raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        return await roles(visit, visit.failed(f"{action} role", target, first_error(failure)), 400)
    visit.did(f"{action} role", target)
    return visit.see("/roles", f"{action}: {target}")


PAGES = (
    Page("GET", "/acls", acls),
    Page("POST", "/acls", change_acl),
    Page("GET", "/users", users),
    Page("POST", "/users", change_user),
    Page("GET", "/roles", roles),
    Page("POST", "/roles", change_role),
)
