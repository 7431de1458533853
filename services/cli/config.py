"""`headrace config …`: describe and alter configs of topics, groups, nodes and the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..secured_files import parse_properties
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
from .completion import group_names, node_ids, topic_names
from .output import note, print_rows, write_line
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.admin.admin_types import ConfigValue, Resource
    from ...clients.sync.admin_io import Admin

_COLUMNS = ("resource", "key", "value", "source")
_RESOURCES_PER_REQUEST = 200  # Bound: a response describes every key of each resource
_PAIRS: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE", "callback": key_value_pairs}
_SOURCES = {
    1: "topic",
    2: "node",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}


@click.group()
def config() -> None:
    """Describe and alter configs of topics, groups, nodes and the cluster, and log levels."""


def _resource_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--cluster-wide", is_flag=True, help="Defaults of all nodes of the cluster."),
        click.option(
            "--node",
            "nodes",
            multiple=True,
            type=click.IntRange(min=0),
            metavar="ID",
            shell_complete=node_ids,
            help="Storage node.",
        ),
        click.option(
            "--loggers",
            multiple=True,
            type=click.IntRange(min=0),
            metavar="ID",
            shell_complete=node_ids,
            help="Log levels of the process of storage node ID, by logger; until its restart.",
        ),
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="NAME",
            shell_complete=group_names,
            help="Group; repeatable.",
        ),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="NAME",
            shell_complete=topic_names,
            help="Topic; repeatable.",
        ),
    ):
        command = option(command)
    return command


@config.command()
@_resource_options
@click.option("--all", "is_all", is_flag=True, help="Include inherited values and defaults.")
@click.option(
    "-v",
    "--verbose",
    "is_verbose",
    is_flag=True,
    help="Show the value of each source, and the meaning of the key.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(
    settings: Settings,
    *,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    nodes: tuple[int, ...],
    loggers: tuple[int, ...],
    cluster_wide: bool,
    is_all: bool,
    is_verbose: bool,
) -> None:
    """Show configs and their sources: of the given topics, groups or nodes, or of all with own configs.

    The value of a topic or group overrides that of its node, which overrides that of the cluster, which
    overrides the node's start configuration, which overrides the default.
    """
    with open_admin(settings, settings.client_config()) as admin:
        wanted = _resources(topics, groups, nodes, loggers, cluster_wide) or admin.list_config_resources(
            configured_only=True
        )
        rows: list[dict[str, Any]] = []
        errors: dict[str, BaseException] = {}
        for start in range(0, len(wanted), _RESOURCES_PER_REQUEST):
            part = wanted[start : start + _RESOURCES_PER_REQUEST]
            found = admin.describe_configs(*part, synonyms=is_verbose, docs=is_verbose)
            errors |= {_name(resource): error for resource, error in found.errors.items()}
            for resource in part:
                if resource not in found.errors:
                    rows += _rows(resource, found[resource], is_all=is_all)
    if settings.is_text and is_verbose:
        _print_at_length(rows)
    elif rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
    elif not errors:
        note("no configs are set; --all includes inherited values and defaults")
    raise_first(errors, len(wanted), "resources")


@config.command()
@_resource_options
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_value_pairs,
    help="Set a key; repeatable.",
)
@click.option(
    "--set-file",
    "path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Set the keys of a properties file.",
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Remove a key, so that its inherited value applies; repeatable.",
)
@click.option(
    "--append",
    "appended",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_value_pairs,
    help="Add values to the list of a key.",
)
@click.option(
    "--subtract",
    "subtracted",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_value_pairs,
    help="Remove values from the list of a key.",
)
@click.option("--dry-run", is_flag=True, help="Validate the change without making it.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def alter(
    settings: Settings,
    *,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    nodes: tuple[int, ...],
    loggers: tuple[int, ...],
    cluster_wide: bool,
    path: Path | None,
    dry_run: bool,
    **given: Any,
) -> None:
    """Change configs of topics, groups or nodes. The changes of one topic, group or node are atomic."""
    wanted = _resources(topics, groups, nodes, loggers, cluster_wide)
    if not wanted:
        raise click.UsageError("name a resource: --topic, --group, --node, --loggers or --cluster-wide")
    if path is not None:
        given["given"] = {**parse_properties(path.read_text(encoding="utf-8")), **given["given"]}
    changes = _changes(**given)
    with open_admin(settings, settings.client_config()) as admin:
        _alter(admin, wanted, changes, settings, dry_run=dry_run)


@config.command()
@reading_command(form_option)
def keys(settings: Settings) -> None:
    """Print the reference of all config keys: topics, groups, nodes, controllers and clients."""
    from ..reference import config_page, config_rows

    if settings.is_text:
        write_line(config_page())
    else:
        print_rows(config_rows(), (), settings.form)


def _alter(
    admin: Admin, wanted: list[Resource], changes: dict[str, Any], settings: Settings, *, dry_run: bool
) -> None:
    results = admin.alter_configs(dict.fromkeys(wanted, changes), validate_only=dry_run)
    done = [resource for resource in wanted if resource not in results.errors]
    state = "could be changed" if dry_run else "changed"
    if not settings.is_text:
        rows = [{"resource": _name(resource), "state": state} for resource in done]
        print_rows(rows, ("resource", "state"), settings.form)
    elif done:
        note(f"{state}: {', '.join(map(_name, done))}")
    raise_first(
        {_name(resource): error for resource, error in results.errors.items()}, len(wanted), "resources"
    )


def _changes(
    given: dict[str, str], deleted: tuple[str, ...], appended: dict[str, str], subtracted: dict[str, str]
) -> dict[str, Any]:
    """Errors: click.UsageError if there is no change, or two changes of one key."""
    from ...clients.admin.admin_types import append, subtract

    parts: tuple[Mapping[str, Any], ...] = (
        given,
        dict.fromkeys(deleted),
        {key: append(value) for key, value in appended.items()},
        {key: subtract(value) for key, value in subtracted.items()},
    )
    changes: dict[str, Any] = {}
    for part in parts:
        twice = changes.keys() & part.keys()
        if twice:
            raise click.UsageError(f"two changes of key {min(twice)}")
        changes |= part
    if not changes:
        raise click.UsageError("nothing to change: give --set, --set-file, --delete, --append or --subtract")
    return changes


def _resources(
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    nodes: tuple[int, ...],
    loggers: tuple[int, ...],
    cluster_wide: bool,
) -> list[Resource]:
    from ...clients.admin.admin_types import Resource

    found = [Resource.broker()] if cluster_wide else []
    found += [Resource.broker(node) for node in dict.fromkeys(nodes)]
    found += [Resource.broker_loggers(node) for node in dict.fromkeys(loggers)]
    found += [Resource.group(name) for name in dict.fromkeys(groups)]
    return found + [Resource.topic(name) for name in dict.fromkeys(topics)]


def _name(resource: Resource) -> str:
    if resource.kind == "broker-loggers":
        return f"loggers of node {resource.name}"
    if resource.kind != "broker":
        return f"{resource.kind} {resource.name}"
    return f"node {resource.name}" if resource.name else "cluster"


def _rows(resource: Resource, values: Mapping[str, ConfigValue], *, is_all: bool) -> list[dict[str, Any]]:
    return [
        {
            "resource": _name(resource),
            "key": value.name,
            "value": _shown(value.value),
            "source": _SOURCES[value.source],
            "is_default": value.is_default,
            "is_read_only": value.is_read_only,
            "is_sensitive": value.is_sensitive,
            "type": value.type.name.lower(),
            "synonyms": [
                {"key": each.name, "value": _shown(each.value), "source": _SOURCES[each.source]}
                for each in value.synonyms
            ],
            "doc": value.doc,
        }
        for value in values.values()
        if is_all or not value.is_default
    ]


def _shown(value: str | None) -> str:
    return "(hidden)" if value is None else value


def _print_at_length(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        about = [row["type"], *(["read-only"] if row["is_read_only"] else [])]
        write_line(f"{row['resource']}  {row['key']}={row['value']}  ({', '.join(about)})")
        for each in row["synonyms"]:
            write_line(f"    {each['source']}: {each['key']}={each['value']}")
        if row["doc"]:
            write_line(f"    {row['doc']}")
