"""`headrace acl …`: rules of authorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .acl_options import filter_of, one_resource, pattern_options, rule_options, rules_of
from .admin import open_admin, raise_first
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .output import note, print_object, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ...protocol.security.acls import AclBinding
    from ...protocol.security.authorizer import RuleAuthorizer

_COLUMNS = ("permission", "principal", "host", "operation", "resource", "name", "pattern")


@click.group()
def acl() -> None:
    """Create, delete, list and explain access rules (ACLs)."""


@acl.command()
@rule_options(is_filter=False)
@click.option("--deny", is_flag=True, help="Deny the operation: deny rules override allow rules.")
@changing_command(bootstrap_option, cluster_option, config_option)
def create(settings: Settings, **given: Any) -> None:
    """Create rules, one for each combination of user, host, operation and resource. Existing rules stay.

    Example: headrace acl create --user alice --operation read --topic orders
    """
    rules = rules_of(given)
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.create_acls(*rules)
    raise_first({rule_text(rule): error for rule, error in results.errors.items()}, len(rules), "rules")
    note(f"created: {len(rules)} rules" if len(rules) > 1 else f"created: {rule_text(rules[0])}")


@acl.command()
@rule_options(is_filter=True)
@click.option("--deny/--allow", "deny", default=None, help="Select deny rules only, or allow rules only.")
@click.option(
    "--all", "is_all", is_flag=True, help="Delete all rules; needed if no other option selects rules."
)
@click.option("--dry-run", is_flag=True, help="Print the matching rules without deleting them.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def delete(settings: Settings, *, is_all: bool, dry_run: bool, **given: Any) -> None:
    """Delete the rules that match all given options, and print them."""
    selected = filter_of(given)
    if selected.is_everything and not is_all:
        raise click.UsageError("select rules by options, or give --all")
    with open_admin(settings, settings.client_config()) as admin:
        rules = admin.describe_acls(selected) if dry_run else admin.delete_acls(selected)[selected]
    _print(settings, rules)
    note(f"{'would be deleted' if dry_run else 'deleted'}: {len(rules)} rules")


@acl.command("list")
@rule_options(is_filter=True)
@click.option("--deny/--allow", "deny", default=None, help="Select deny rules only, or allow rules only.")
@click.option(
    "--matching", is_flag=True, help="Include rules of prefixes and of * that apply to the resource."
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def list_rules(settings: Settings, **given: Any) -> None:
    """List the rules that match all given options; without options, all rules."""
    with open_admin(settings, settings.client_config()) as admin:
        rules = admin.describe_acls(filter_of(given))
    _print(settings, rules)
    if not rules and settings.is_text:
        note("no rules match")


@acl.command()
@click.option("--user", required=True, help="User, or principal such as User:alice.")
@click.option("--host", default="", help="Client address of the connection.")
@click.option(
    "--operation", required=True, metavar="NAME", help="Operation, such as read, write, create or describe."
)
@pattern_options
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def explain(settings: Settings, *, user: str, host: str, operation: str, **given: Any) -> None:
    """Show whether a user is authorized for an operation, and the rule that decides it."""
    from ...protocol.security.acls import AclOperation
    from ...protocol.security.identity import Identity
    from ...protocol.security.principals import parse_principal
    from .acl_options import member_of, principal_text

    wanted = member_of(AclOperation, operation)
    resource = one_resource(given)
    identity = Identity(parse_principal(principal_text(user)), host)
    with open_admin(settings, settings.client_config()) as admin:
        verdict = _authorizer(admin).explain(identity, wanted, resource)
    facts = {"allowed": verdict.is_allowed, "because": verdict.reason.value}
    print_object({**facts, "rule": verdict.rule and rule_text(verdict.rule)}, settings.form)


@acl.command("lint")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def lint_rules(settings: Settings) -> None:
    """List rules without effect: they never match, or another rule makes them redundant."""
    from ...protocol.security.lint import lint

    with open_admin(settings, settings.client_config()) as admin:
        authorizer = _authorizer(admin)
        roles = admin.describe_roles()
    members = {name: roles[name].members for name in roles}
    rows = [
        {
            "rule": rule_text(found.rule),
            "reason": found.reason,
            "because_of": rule_text(found.because_of) if found.because_of else None,
        }
        for found in lint(authorizer.rules, authorizer.super_users, members=members)
    ]
    if rows or not settings.is_text:
        print_rows(rows, ("rule", "reason", "because_of"), settings.form)
    else:
        note("every rule has an effect")


def _authorizer(admin: Admin) -> RuleAuthorizer:
    """The rules of the cluster, with the settings of one of its nodes."""
    from ...clients.admin.admin_types import Resource
    from ...protocol.security.authorizer import RuleAuthorizer, parse_super_users
    from ...protocol.security.rule_index import RuleIndex

    rules = RuleIndex(admin.describe_acls())
    roles = admin.describe_roles()
    node = Resource.broker(min(each.node_id for each in admin.describe_cluster().nodes))
    configs = admin.describe_configs(node)[node]
    return RuleAuthorizer(
        rules,
        parse_super_users(configs["super.users"].value or ""),
        allow_if_no_rules=configs["allow.everyone.if.no.acl.found"].value == "true",
        memberships=[(name, member) for name in roles for member in roles[name].members],
    )


def _print(settings: Settings, rules: list[AclBinding]) -> None:
    if rules or not settings.is_text:
        print_rows([_row(rule) for rule in rules], _COLUMNS, settings.form)


def _row(rule: AclBinding) -> dict[str, str]:
    return {
        "permission": rule.permission.name.lower(),
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name.lower(),
        "resource": rule.resource_type.name.lower(),
        "name": rule.name,
        "pattern": rule.pattern_type.name.lower(),
    }


def rule_text(rule: AclBinding) -> str:
    """A rule as a sentence."""
    facts = _row(rule)
    pattern = " prefix" if facts["pattern"] == "prefixed" else ""
    return (
        f"{facts['permission']} {facts['principal']} from {facts['host']}"
        f" {facts['operation']} on {facts['resource']}{pattern} {facts['name']}"
    )
