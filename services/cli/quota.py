"""`headrace quota …`: client quotas of users, client ids and IP addresses."""

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
    key_value_pairs,
    reading_command,
)
from .output import note, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS = ("entity", "quota", "value")
_KINDS = ("user", "client_id", "ip")


@click.group()
def quota() -> None:
    """Describe and alter client quotas of users, client ids and IP addresses."""


def _entity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for kind, what in (("ip", "IP address"), ("client", "client id"), ("user", "user")):
        default = f"Default quotas of {what}{'es' if kind == 'ip' else 's'} without own quotas."
        command = click.option(f"--{kind}-defaults", is_flag=True, help=default)(command)
        command = click.option(f"--{kind}", metavar="NAME", help=f"Quotas of this {what}.")(command)
    return command


@quota.command()
@_entity_options
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, **given: Any) -> None:
    """Show the quotas that match the options, or all quotas. Those of a user include its client ids."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_client_quotas(_names(given))
    rows = [
        {"entity": _entity_text(entity), "quota": key, "value": values[key]}
        for entity, values in found.items()
        for key in sorted(values)
    ]
    if rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
    else:
        note("no quotas match")


@quota.command()
@_entity_options
@click.option(
    "--set",
    "given_values",
    multiple=True,
    metavar="QUOTA=VALUE",
    callback=key_value_pairs,
    help="Set a quota: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate;"
    " of an IP address, connection_creation_rate.",
)
@click.option("--delete", "deleted", multiple=True, metavar="QUOTA", help="Remove a quota; repeatable.")
@click.option("--dry-run", is_flag=True, help="Validate the request without making the change.")
@changing_command(bootstrap_option, cluster_option, config_option)
def alter(
    settings: Settings,
    *,
    given_values: dict[str, str],
    deleted: tuple[str, ...],
    dry_run: bool,
    **given: Any,
) -> None:
    """Change the quotas of a user, a client id, a user with a client id, or an IP address.

    All changes are made, or none. Example: headrace quota alter --client etl --set producer_byte_rate=1000000
    """
    from ...clients.admin.quotas_io import quota_entity

    names = _names(given)
    if not names:
        raise click.UsageError("give --user, --client or --ip with a name, or --user-defaults and so on")
    changes = _changes(given_values, deleted)
    entity = quota_entity(**names)
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.alter_client_quotas({entity: changes}, validate_only=dry_run)
    raise_first({_entity_text(each): error for each, error in results.errors.items()}, 1, "entities")
    note(f"{'could be changed' if dry_run else 'changed'}: {_entity_text(entity)}")


def _names(given: dict[str, Any]) -> dict[str, str | None]:
    """Errors: click.UsageError for both a name and the default of one kind."""
    names: dict[str, str | None] = {}
    for kind in _KINDS:
        option = kind.removesuffix("_id")
        name, is_default = given[option], given[f"{option}_defaults"]
        if name is not None and is_default:
            raise click.UsageError(f"--{option} and --{option}-defaults exclude each other")
        if name is not None or is_default:
            names[kind] = name
    return names


def _changes(given: dict[str, str], deleted: tuple[str, ...]) -> dict[str, float | None]:
    """Errors: click.UsageError."""
    changes: dict[str, float | None] = dict.fromkeys(deleted)
    for key, text in given.items():
        if key in changes:
            raise click.UsageError(f"two changes of quota {key}")
        try:
            changes[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key} must be a number, not {text!r}") from None
    if not changes:
        raise click.UsageError("nothing to change: give --set or --delete")
    return changes


def _entity_text(entity: Any) -> str:
    return ", ".join(f"{kind} {name}" if name is not None else f"{kind} defaults" for kind, name in entity)
