"""`headrace role …`: roles, whose rules count for all their members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .acl import rule_text
from .acl_options import principal_text
from .admin import open_admin, raise_first
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    list_form_option,
    reading_command,
)
from .completion import role_names, user_names
from .output import note, print_object, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COLUMNS = ("role", "members")


@click.group()
def role() -> None:
    """Create, delete and describe roles, and grant them to users. `headrace acl create --role` adds rules."""


@role.command()
@click.argument("names", nargs=-1, required=True)
@changing_command(bootstrap_option, cluster_option, config_option)
def create(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Create roles; those that exist stay."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.create_roles(*names)
    raise_first(results.errors, len(names), "roles")
    note(f"created: {', '.join(names)}")


@role.command()
@click.argument("names", nargs=-1, required=True, shell_complete=role_names)
@click.option("--with-rules", is_flag=True, help="Delete members and rules of the roles, too.")
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, names: tuple[str, ...], with_rules: bool) -> None:
    """Delete roles that have no members, no rules and no namespace."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.delete_roles(*names, with_rules=with_rules)
    raise_first(results.errors, len(names), "roles")
    note(f"deleted: {', '.join(names)}")


def _members(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--user",
        "users",
        multiple=True,
        required=True,
        metavar="NAME",
        shell_complete=user_names,
        help="A user; repeatable.",
    )
    return click.argument("name", shell_complete=role_names)(option(command))


@role.command()
@_members
@changing_command(bootstrap_option, cluster_option, config_option)
def grant(settings: Settings, *, name: str, users: tuple[str, ...]) -> None:
    """Make users members of a role."""
    members = [principal_text(each) for each in users]
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.grant_role(name, *members)
    raise_first(results.errors, len(members), "users")
    note(f"granted to: {', '.join(members)}")


@role.command()
@_members
@changing_command(bootstrap_option, cluster_option, config_option)
def revoke(settings: Settings, *, name: str, users: tuple[str, ...]) -> None:
    """Take a role from users."""
    members = [principal_text(each) for each in users]
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.revoke_role(name, *members)
    raise_first(results.errors, len(members), "users")
    note(f"revoked from: {', '.join(members)}")


@role.command("list")
@click.option("--user", "user", metavar="NAME", help="Only the roles of this user.")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_roles(settings: Settings, *, user: str | None) -> None:
    """List roles with their members."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_roles(member=principal_text(user) if user else "")
    rows = [{"role": name, "members": found[name].members} for name in found]
    if rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
    else:
        note("no roles match" if user else "there are no roles")


@role.command()
@click.argument("name", shell_complete=role_names)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, *, name: str) -> None:
    """Show the members and the rules of a role, and the namespaces that it owns."""
    from ...protocol.security.acls import AclFilter
    from ...protocol.security.roles import role as role_principal

    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_roles(name)[name]
        rules = admin.describe_acls(AclFilter(principal=str(role_principal(name))))
        namespaces = admin.describe_namespaces()
    facts = {
        "role": name,
        "members": list(found.members),
        "rules": [rule_text(rule) for rule in rules],
        "namespaces": [prefix for prefix in namespaces if namespaces[prefix].owner == name],
    }
    print_object(facts, settings.form)
