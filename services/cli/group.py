"""`headrace group …`: members, committed offsets and lag of groups, and changes of them."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from ...clients.admin.group_types import GroupType
from ..group_reset import scope_of
from ..lag_view import PARTITION_COLUMNS, group_row, partition_lines
from .admin import open_admin, places_of, raise_first
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
from .completion import group_names, topic_names
from .group_reset import reset
from .lag import found_lags, isolation_option
from .output import note, print_object, print_rows, write_line
from .regex import validate_regex
from .sent_topology import sent_topology, topology_lines, topology_rows
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...clients.admin.group_types import GroupDescription, GroupMemberDescription
    from ...clients.admin.lag_types import ConsumerGroupLag
    from ...clients.admin.streams_groups import StreamsMemberDescription, StreamsTasks, TaskId
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from ...protocol.records.streams_group_records import TopologyDescription

_LISTED = ("group", "type", "state", "protocol")
_TASKS = ("group", "task", "role", "target", "member", "process", "client", "host")
_MEMBERS = ("group", "member", "instance", "client", "host", "epoch", "partitions", "assignment")


@click.group()
def group() -> None:
    """Describe groups, and reset or delete their committed offsets."""


group.add_command(reset)
group.add_command(validate_regex)


@group.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Only groups in this state, such as Stable or Empty; repeatable.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only groups of this type: classic, consumer or streams; repeatable.",
)
@click.option("--protocol", metavar="NAME", help="Only groups of this protocol, such as consumer or connect.")
@reading_command(bootstrap_option, cluster_option, config_option, list_form_option)
@watchable
def list_groups(
    settings: Settings, *, states: tuple[str, ...], types: tuple[str, ...], protocol: str | None
) -> None:
    """List groups of all types with their states."""
    with open_admin(settings, settings.client_config()) as admin:
        rows = [
            {
                "group": each.group_id,
                "type": each.group_type.value,
                "state": each.state.value,
                "protocol": each.protocol_type or None,
            }
            for each in admin.list_groups(states=states, types=types)
            if protocol is None or each.protocol_type == protocol
        ]
    print_rows(rows, _LISTED, settings.form)


@group.command()
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=group_names)
@click.option("--all", "is_all", is_flag=True, help="Show all groups.")
@isolation_option
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def describe(settings: Settings, *, names: tuple[str, ...], is_all: bool, isolation: str) -> None:
    """Show the committed offset, the exact lag and the member of each partition of groups.

    The lag is that of `headrace lag`. Of a streams group, also shows the topology that its members sent.
    """
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.consumer_group_lag(*_names(admin, names, is_all), isolation=isolation)
        found, errors = found_lags(results), results.errors
        shown = [(_facts(each), _topology(admin, each.group)) for each in found]
        if settings.is_text:
            for facts, graph in shown:
                _print_group(facts, graph)
        else:
            rows = [{**facts, **_topology_field(graph)} for facts, graph in shown]
            print_rows(rows, (), settings.form)
        raise_first(errors, len(found) + len(errors), "groups")


@group.command()
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=group_names)
@click.option("--all", "is_all", is_flag=True, help="Show all groups.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def members(settings: Settings, *, names: tuple[str, ...], is_all: bool) -> None:
    """Show the members of groups and their assignments."""
    with open_admin(settings, settings.client_config()) as admin:
        found, errors = _described(admin, names, is_all)
    rows = [_member(each, member) for each in found for member in each.members]
    if settings.is_text:
        rows = [{**row, "assignment": " ".join(row["assignment"]) or None} for row in rows]
    if rows or not settings.is_text:
        print_rows(rows, _MEMBERS, settings.form)
    elif not errors:
        note("no members")
    raise_first(errors, len(found) + len(errors), "groups")


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=group_names)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def tasks(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Show the tasks of each member of streams groups: current role and target role."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.describe_streams_groups(*dict.fromkeys(names))
    found = [results[name] for name in results if name not in results.errors]
    rows = [row for each in found for member in each.members for row in _tasks(each.group_id, member)]
    if rows or not settings.is_text:
        print_rows(rows, _TASKS, settings.form)
    elif not results.errors:
        note("no tasks")
    raise_first(results.errors, len(results), "groups")


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=group_names)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option)
def delete(settings: Settings, *, names: tuple[str, ...], is_sure: bool) -> None:
    """Delete groups without members, and all their committed offsets."""
    if not is_sure:
        click.confirm(f"Delete {', '.join(names)} and all committed offsets?", abort=True, err=True)
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.delete_groups(*dict.fromkeys(names))
    gone = [name for name in results if name not in results.errors]
    if gone:
        note(f"deleted {', '.join(gone)}")
    raise_first(results.errors, len(results), "groups")


@group.command("delete-offsets")
@click.argument("name", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="T[:P,…]",
    shell_complete=topic_names,
    help="Topic, or some of its partitions; repeatable.",
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def delete_offsets(settings: Settings, *, name: str, topics: tuple[str, ...]) -> None:
    """Delete committed offsets of group NAME, of topics that its members do not subscribe to."""
    scopes = [scope_of(text) for text in topics]
    with open_admin(settings, settings.client_config()) as admin:
        places = dict.fromkeys(place for scope in scopes for place in places_of(admin, *scope))
        results = admin.delete_group_offsets(name, places)
    rows = [
        {"group": name, "topic": place.topic, "partition": place.partition}
        for place in results
        if place not in results.errors
    ]
    if rows or not settings.is_text:
        print_rows(rows, ("group", "topic", "partition"), settings.form)
    raise_first({str(place): error for place, error in results.errors.items()}, len(results), "partitions")


def _described(
    admin: Admin, names: Sequence[str], is_all: bool
) -> tuple[list[GroupDescription], dict[str, BaseException]]:
    """Groups that exist, and the errors of the others. Errors: click.UsageError."""
    results = admin.describe_groups(*_names(admin, names, is_all))
    return [results[name] for name in results if name not in results.errors], results.errors


def _names(admin: Admin, names: Sequence[str], is_all: bool) -> list[str]:
    """The groups that a command is about. Errors: click.UsageError."""
    if bool(names) == is_all:
        raise click.UsageError("name groups, or give --all")
    return list(dict.fromkeys(names or [each.group_id for each in admin.list_groups()]))


def _facts(found: ConsumerGroupLag) -> dict[str, Any]:
    return {
        **group_row(found),
        "assignor": found.group.assignor or None,
        "coordinator": found.group.coordinator,
    }


def _topology(admin: Admin, found: GroupDescription) -> TopologyDescription | None:
    return sent_topology(admin, found.group_id) if found.group_type is GroupType.STREAMS else None


def _topology_field(graph: TopologyDescription | None) -> dict[str, Any]:
    return {} if graph is None else {"topology": topology_rows(graph)}


def _print_group(facts: Mapping[str, Any], graph: TopologyDescription | None) -> None:
    print_object({name: value for name, value in facts.items() if name != "partitions"}, "text")
    if facts["partitions"]:
        print_rows(partition_lines(dict(facts)), PARTITION_COLUMNS, "text")
    for line in () if graph is None else topology_lines(graph):
        write_line(line)
    write_line("")


def _member(found: GroupDescription, member: GroupMemberDescription) -> dict[str, Any]:
    return {
        "group": found.group_id,
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.member_epoch if member.member_epoch >= 0 else None,
        "partitions": len(member.assignment),
        "assignment": scopes_text(member.assignment),
        "target": scopes_text(member.target),
    }


def _tasks(group_id: str, member: StreamsMemberDescription) -> list[dict[str, Any]]:
    """A row per task that the member has or will get, with its role now and in the target assignment."""
    roles, targets = _roles(member.tasks), _roles(member.target)
    return [
        {
            "group": group_id,
            "task": str(task),
            "role": roles.get(task),
            "target": targets.get(task),
            "member": member.member_id,
            "process": member.process_id,
            "client": member.client_id,
            "host": member.host,
        }
        for task in sorted(roles.keys() | targets.keys())
    ]


def _roles(tasks: StreamsTasks) -> dict[TaskId, str]:
    by_role = (("active", tasks.active), ("standby", tasks.standby), ("warm-up", tasks.warmup))
    return {task: role for role, some in by_role for task in some}


def scopes_text(places: Iterable[TopicPartition]) -> list[str]:
    """Partitions by topic, in the notation of `--topic`."""
    return [
        f"{topic}:{','.join(str(place.partition) for place in mine)}"
        for topic, mine in groupby(sorted(places), attrgetter("topic"))
    ]
