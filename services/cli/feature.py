"""`headrace feature …`: feature levels of the cluster."""

from __future__ import annotations

import click

from .admin import open_admin
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
from .completion import feature_names
from .output import note, print_rows
from .watch import watchable

_COLUMNS = ("feature", "level", "min_level", "max_level")


@click.group()
def feature() -> None:
    """List and set the levels of features, under Kafka's names."""


@feature.command("list")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_features(settings: Settings) -> None:
    """List features with their levels."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_features()
    print_rows([{"feature": name, **found[name]._asdict()} for name in found], _COLUMNS, settings.form)


@feature.command("set")
@click.argument("name", shell_complete=feature_names)
@click.argument("level", type=int)
@click.option("--downgrade", is_flag=True, help="Allow a lower level than now.")
@click.option("--dry-run", is_flag=True, help="Only check.")
@changing_command(bootstrap_option, cluster_option, config_option)
def set_level(settings: Settings, *, name: str, level: int, downgrade: bool, dry_run: bool) -> None:
    """Set the level of a feature. All servers have to support it."""
    with open_admin(settings, settings.client_config()) as admin:
        admin.update_features({name: level}, allow_downgrade=downgrade, validate_only=dry_run)
    note(f"{'would be set' if dry_run else 'set'}: {name} {level}")


@feature.command()
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def upgrade(settings: Settings, *, dry_run: bool) -> None:
    """Set each feature to the highest level that all nodes support."""
    with open_admin(settings, settings.client_config()) as admin:
        found = admin.describe_features()
        lower = {name: each.max_level for name, each in found.items() if each.level < each.max_level}
        if lower:
            admin.update_features(lower, validate_only=dry_run)
    rows = [{"feature": name, "from": found[name].level, "to": level} for name, level in lower.items()]
    if rows or not settings.is_text:
        print_rows(rows, ("feature", "from", "to"), settings.form)
    else:
        note("all features have their highest levels")


@feature.command()
@reading_command(form_option)
def versions(settings: Settings) -> None:
    """Show the levels that this version of headrace supports; it serves the apis of Kafka 4.3."""
    from ...protocol.metadata.features import SUPPORTED

    rows = [{"feature": name, "min_level": low, "max_level": high} for name, (low, high) in SUPPORTED.items()]
    print_rows(rows, ("feature", "min_level", "max_level"), settings.form)
