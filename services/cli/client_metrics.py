"""`headrace client-metrics …`: subscriptions to metrics that Kafka clients push (KIP-714)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import click

from .admin import open_admin, raise_first
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
    list_form_option,
    reading_command,
)
from .completion import subscription_names
from .output import note, print_rows
from .watch import watchable

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin

KEYS = ("metrics", "interval.ms", "match")
_COLUMNS = ("name", *KEYS)
_name_option = click.option(
    "--name", metavar="NAME", shell_complete=subscription_names, help="Name of the subscription."
)


@click.group("client-metrics")
def client_metrics() -> None:
    """Describe and alter subscriptions to client metrics (KIP-714).

    Kafka clients push the metrics of a subscription; `headrace status -o json` shows them.
    """


@client_metrics.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_subscriptions(settings: Settings) -> None:
    """List the names of all subscriptions to client metrics."""
    with open_admin(settings, settings.client_config()) as admin:
        print_rows([{"name": name} for name in _names(admin)], ("name",), settings.form)


@client_metrics.command()
@_name_option
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, *, name: str | None) -> None:
    """Show a subscription, or all subscriptions."""
    from ...clients.admin.admin_types import Resource

    with open_admin(settings, settings.client_config()) as admin:
        names = _names(admin)
        if name is not None and name not in names:
            raise _not_found(name)
        wanted = [Resource.client_metrics(each) for each in ([name] if name is not None else names)]
        found = admin.describe_configs(*wanted) if wanted else {}
        rows = [{"name": each.name, **{key: found[each][key].value for key in KEYS}} for each in wanted]
    print_rows(rows, _COLUMNS, settings.form)


@client_metrics.command()
@_name_option
@click.option("--generate-name", is_flag=True, help="Create a subscription with a generated name.")
@click.option("--metrics", metavar="PREFIX,…", help="Prefixes of the names of metrics; * for all metrics.")
@click.option("--interval", metavar="MS", help="Push interval in ms.")
@click.option("--match", metavar="FACT=REGEX,…", help="Clients that push, such as client_id=app-.*.")
@changing_command(bootstrap_option, cluster_option, config_option)
def alter(
    settings: Settings,
    *,
    name: str | None,
    generate_name: bool,
    metrics: str | None,
    interval: str | None,
    match: str | None,
) -> None:
    """Create or change a subscription; an empty value resets a setting to its default."""
    if (name is None) is not generate_name:
        raise click.UsageError("give either --name NAME or --generate-name")
    given = dict(zip(KEYS, (metrics, interval, match), strict=True))
    changes = {key: value or None for key, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: give --metrics, --interval or --match")
    chosen = name if name is not None else str(uuid.uuid4())
    with open_admin(settings, settings.client_config()) as admin:
        _alter(admin, chosen, changes)
    note(f"changed: subscription {chosen}")


@client_metrics.command()
@click.option(
    "--name",
    metavar="NAME",
    required=True,
    shell_complete=subscription_names,
    help="Name of the subscription.",
)
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, name: str) -> None:
    """Delete a subscription."""
    with open_admin(settings, settings.client_config()) as admin:
        if name not in _names(admin):
            raise _not_found(name)
        _alter(admin, name, dict.fromkeys(KEYS))
    note(f"deleted: subscription {name}")


def _not_found(name: str) -> NotFoundError:
    return NotFoundError(f"subscription {name!r} does not exist; `headrace client-metrics list` lists all")


def _names(admin: Admin) -> list[str]:
    configured = admin.list_config_resources(configured_only=True)
    return sorted(each.name for each in configured if each.kind == "client-metrics")


def _alter(admin: Admin, name: str, changes: dict[str, str | None]) -> None:
    from ...clients.admin.admin_types import Resource

    results = admin.alter_configs({Resource.client_metrics(name): changes})
    raise_first({each.name: error for each, error in results.errors.items()}, 1, "subscriptions")
