"""`headrace group reset`: change the committed offsets of a group without members."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError, GroupIdNotFoundError, NonEmptyGroupError
from ...runtime.nearest import did_you_mean
from .. import group_reset
from ..group_reset import Bounds, Move, Rule
from .admin import open_admin, places_of, raise_first
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option, form_option
from .completion import group_names, topic_names
from .output import note, print_rows, write_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition

_COLUMNS = ("group", "topic", "partition", "old", "new")


def reset_rules(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option per rule, with the names of kafka-consumer-groups."""
    for option in (
        click.option(
            "--from-file",
            metavar="CSV",
            type=click.Path(exists=True, dir_okay=False),
            help="Reset to the offsets of this file: lines of topic,partition,offset, as from --export.",
        ),
        click.option(
            "--shift-by",
            metavar="N",
            type=int,
            help="Shift the committed offset by N records, backward if N is negative.",
        ),
        click.option(
            "--by-duration",
            metavar="PnDTnHnMnS",
            help="Reset to the first record of the last such period, such as P1D.",
        ),
        click.option(
            "--to-datetime",
            metavar="TIME",
            help="Reset to the first record at or after this time, in ISO 8601.",
        ),
        click.option("--to-offset", metavar="N", type=click.IntRange(min=0), help="Reset to this offset."),
        click.option(
            "--to-current", is_flag=True, help="Reset to the committed offset, or without one to the end."
        ),
        click.option("--to-latest", is_flag=True, help="Reset to the end."),
        click.option("--to-earliest", is_flag=True, help="Reset to the beginning."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("name", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="T[:P,…]",
    shell_complete=topic_names,
    help="Topic, or some of its partitions; repeatable.",
)
@click.option(
    "--all-topics", is_flag=True, help="Reset all partitions in which the group has a committed offset."
)
@reset_rules
@click.option("--new-group", is_flag=True, help="Allow a group that does not exist yet.")
@click.option("--execute", is_flag=True, help="Commit the new offsets; without it they are only printed.")
@click.option("--export", "is_csv", is_flag=True, help="Print the new offsets as CSV for --from-file.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def reset(
    settings: Settings,
    *,
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    new_group: bool,
    execute: bool,
    is_csv: bool,
    **rules: Any,
) -> None:
    """Reset the committed offsets of group NAME, which must have no members, by one of the --to-… rules.

    Without --execute the old and the new offsets are printed, and no offset is changed. Offsets outside of a
    partition's log are moved to its nearer end.
    """
    rule, value = rule_of(rules)
    _check_scope(rule, topics, all_topics)
    with open_admin(settings, settings.client_config()) as admin:
        _check_empty(admin, name, is_new=new_group)
        given = offsets_of_file(value, name) if rule is Rule.FILE else {}
        places = list(given) or places_to_reset(admin, name, topics)
        bounds = bounds_of(admin, name, places, value if rule is Rule.TIME else None)
        moves = moves_of(rule, value, bounds, given)
        errors = commit_moves(admin, name, moves, is_new=new_group) if execute else {}
    done = [move for move in moves if str(move.tp) not in errors]
    for move in done:
        if move.remark:
            note(f"{move.tp}: {move.remark}")
    print_moves(settings, name, done, is_csv)
    if not execute:
        note("no offset was changed: --execute commits the new ones")
    raise_first(errors, len(moves), "partitions")


def rule_of(options: dict[str, Any]) -> tuple[Rule, Any]:
    """The given rule and its value. Errors: click.UsageError, ConfigError."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in reversed(options))
        raise click.UsageError(f"give one of {names}")
    ((name, value),) = given.items()
    if name == "by_duration":
        from ...clients.durations import duration_ms
        from ...runtime.clock_io import wall_ms

        return Rule.TIME, max(wall_ms() - duration_ms(value), 0)
    rule = Rule(name.replace("_", "-"))
    return rule, group_reset.time_of(value) if rule is Rule.TIME else value


def moves_of(
    rule: Rule, value: Any, bounds: dict[TopicPartition, Bounds], given: dict[TopicPartition, int]
) -> list[Move]:
    """The move of each partition of `bounds`; `given` are the offsets of Rule.FILE."""
    return [
        group_reset.moved(rule, place, bounds[place], given.get(place, value or 0))
        if rule in (Rule.OFFSET, Rule.SHIFT, Rule.FILE)
        else group_reset.moved(rule, place, bounds[place])
        for place in sorted(bounds)
    ]


def _check_scope(rule: Rule, topics: tuple[str, ...], all_topics: bool) -> None:
    if rule is Rule.FILE:
        if topics or all_topics:
            raise click.UsageError("--from-file excludes --topic and --all-topics")
    elif bool(topics) == all_topics:
        raise click.UsageError("give --topic, or --all-topics")


def _check_empty(admin: Admin, name: str, *, is_new: bool) -> None:
    """Errors: NonEmptyGroupError; GroupIdNotFoundError unless `is_new`."""
    results = admin.describe_groups(name)
    if isinstance(results.errors.get(name), GroupIdNotFoundError):
        if is_new:
            return
        hint = did_you_mean(name, [each.group_id for each in admin.list_groups()])
        raise GroupIdNotFoundError(
            f"group {name!r} does not exist{hint or ';'} --new-group sets the offsets of a new group"
        )
    found = results[name]
    if found.members:
        raise NonEmptyGroupError(
            f"group {name!r} is {found.state.value} and has {len(found.members)} members: stop them first"
        )


def offsets_of_file(path: str, name: str) -> dict[TopicPartition, int]:
    """The offsets in a CSV file. Errors: ConfigError."""
    file = Path(path)
    if file.stat().st_size > group_reset.MAX_FILE_BYTES:
        raise ConfigError(f"{path} is too large")
    try:
        return group_reset.offsets_of_csv(file.read_text(), name)
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def places_to_reset(admin: Admin, name: str, topics: tuple[str, ...]) -> list[TopicPartition]:
    """The partitions of topics, or all with a committed offset.

    Errors: ConfigError if the group has no committed offsets; those of missing topics.
    """
    if not topics:
        committed = list(admin.list_group_offsets(name))
        if not committed:
            raise ConfigError(f"group {name!r} has no committed offsets: name topics with --topic")
        return committed
    scopes = [group_reset.scope_of(text) for text in topics]
    return list(dict.fromkeys(place for scope in scopes for place in places_of(admin, *scope)))


def bounds_of(
    admin: Admin, name: str, places: list[TopicPartition], time_ms: int | None
) -> dict[TopicPartition, Bounds]:
    """The state of each partition. Errors: that of the first partition whose offsets cannot be listed."""
    from ...clients.admin.admin_types import EARLIEST, LATEST

    committed = admin.list_group_offsets(name, places)
    earliest = admin.list_offsets(dict.fromkeys(places, EARLIEST))
    latest = admin.list_offsets(dict.fromkeys(places, LATEST))
    by_time = latest if time_ms is None else admin.list_offsets(dict.fromkeys(places, time_ms))
    found: dict[TopicPartition, Bounds] = {}
    for place in places:
        old = committed[place]
        number = None if old is None else old.offset
        found[place] = Bounds(earliest[place].offset, latest[place].offset, number, by_time[place].offset)
    return found


def commit_moves(admin: Admin, name: str, moves: list[Move], *, is_new: bool) -> dict[str, BaseException]:
    """Commit the new offsets; the errors by partition."""
    results = admin.alter_group_offsets(name, {move.tp: move.new for move in moves}, create=is_new)
    return {str(place): error for place, error in results.errors.items()}


def print_moves(settings: Settings, name: str, moves: list[Move], is_csv: bool) -> None:
    """Old and new offsets, as a table or as CSV."""
    if is_csv:
        write_line(group_reset.csv_of(moves).removesuffix("\n"))
        return
    rows = [
        {
            "group": name,
            "topic": move.tp.topic,
            "partition": move.tp.partition,
            "old": move.old,
            "new": move.new,
        }
        for move in moves
    ]
    if rows or not settings.is_text:
        print_rows(rows, _COLUMNS, settings.form)
