"""`headrace namespace …`: quotas of the topics whose names have a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

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
from .completion import namespaces, role_names
from .output import note, print_object, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.admin.role_types import NamespaceDescription

_COLUMNS = ("prefix", "topics", "max_topics", "partitions", "max_partitions", "owner")
_NO_LIMIT = -1


@click.group()
def namespace() -> None:
    """Limit the topics and partitions under a prefix, and name the role that owns it."""


@namespace.command("set")
@click.argument("prefix", shell_complete=namespaces)
@click.option("--max-topics", type=int, help="The most topics; -1 for no limit.")
@click.option("--max-partitions", type=int, help="The most partitions; -1 for no limit.")
@click.option(
    "--owner",
    metavar="ROLE",
    shell_complete=role_names,
    help="The role with all rights under the prefix; '' for none.",
)
@changing_command(bootstrap_option, cluster_option, config_option)
def set_namespace(
    settings: Settings, *, prefix: str, max_topics: int | None, max_partitions: int | None, owner: str | None
) -> None:
    """Create a namespace, or change what the options name."""
    with open_admin(settings, settings.client_config()) as admin:
        admin.set_namespace(prefix, max_topics=max_topics, max_partitions=max_partitions, owner=owner)
    note(f"set: {prefix}")


@namespace.command()
@click.argument("prefixes", nargs=-1, required=True, shell_complete=namespaces)
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, prefixes: tuple[str, ...]) -> None:
    """Delete namespaces, with the rules of their owners; their topics stay."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.delete_namespaces(*prefixes)
    raise_first(results.errors, len(prefixes), "namespaces")
    note(f"deleted: {', '.join(prefixes)}")


@namespace.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_namespaces(settings: Settings) -> None:
    """List namespaces with their limits and what is in them."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_namespaces()
    rows = [_row(found[prefix]) for prefix in found]
    if rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
    else:
        note("there are no namespaces")


@namespace.command()
@click.argument("prefix", shell_complete=namespaces)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, *, prefix: str) -> None:
    """Show one namespace, and those around it, which count, too."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_namespaces(prefix)[prefix]
        others = admin.describe_namespaces()
    around = [other for other in others if prefix.startswith(other) and other != prefix]
    print_object({**_row(found), "within": around}, settings.form)


def _row(found: NamespaceDescription) -> dict[str, Any]:
    return {
        "prefix": found.prefix,
        "topics": found.topics,
        "max_topics": _limit(found.max_topics),
        "partitions": found.partitions,
        "max_partitions": _limit(found.max_partitions),
        "owner": found.owner or None,
    }


def _limit(value: int) -> int | None:
    return None if value == _NO_LIMIT else value
