"""`headrace lag`: what groups have not read yet, in records and in seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from ..lag_view import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    TREND_COLUMNS,
    Trends,
    group_row,
    partition_lines,
    summary,
)
from .admin import open_admin, raise_first
from .common import (
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .completion import group_names, topic_names
from .output import note, plain_table, print_rows, write_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...clients.admin.admin_types import Results
    from ...clients.admin.lag_types import ConsumerGroupLag

_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.argument("names", nargs=-1, metavar="[GROUP…]", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Only of this topic; repeatable.",
)
@click.option("--partitions", "has_partitions", is_flag=True, help="Also show each partition of all groups.")
@click.option("--watch", "is_watching", is_flag=True, help="Repeat it with the trend, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between refreshes.",
)
@click.option("--count", type=click.IntRange(min=1), help="End --watch after this many refreshes.")
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
def lag(
    settings: Settings,
    *,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    has_partitions: bool,
    is_watching: bool,
    interval: float,
    count: int | None,
) -> None:
    """Show how many records groups have not read yet, and the age of the oldest one.

    Counted by the leaders, exactly: what compaction removed, transaction markers and aborted records are no
    lag. Shows each partition of groups that are named, and a line for each group otherwise. Groups of all
    types that commit offsets: classic, consumer and streams groups.

    With --watch: offsets consumed and produced per second, the change of the lag per second, and the time
    until there is none.
    """
    is_detailed = has_partitions or bool(names)
    with open_admin(settings, settings.client_config()) as admin:
        if not is_watching:
            results = admin.consumer_group_lag(*names, topics=topics or None)
            rows = [group_row(each) for each in _found(results)]
            if settings.form == "text":
                write_line("\n".join(_lines(rows, (), is_detailed=is_detailed)))
            else:
                print_rows(rows, (), settings.form)
            raise_first(results.errors, len(results), "groups")
            return
        is_terminal = settings.form == "text" and sys.stdout.isatty()
        trends, turn = Trends(), 0
        while True:
            began = time.monotonic()
            try:
                results = admin.consumer_group_lag(*names, topics=topics or None)
            except HeadraceError as error:
                if not turn:
                    raise
                note(f"headrace: {error}")  # a node may be restarting: ask again
            else:
                rows = trends.rows_of(_found(results), time.monotonic())
                for name, trouble in results.errors.items():
                    note(f"headrace: {name}: {trouble}")
                if settings.form == "text":
                    lines = _lines(rows, TREND_COLUMNS, is_detailed=is_detailed)
                    write_line((_CLEAR if is_terminal else "") + "\n".join(lines))
                else:
                    print_rows(rows, (), settings.form)
            sys.stdout.flush()
            turn += 1
            if turn == count:
                return
            time.sleep(max(began + interval - time.monotonic(), 0))


def _found(results: Results[str, ConsumerGroupLag]) -> list[ConsumerGroupLag]:
    return [results[name] for name in results if name not in results.errors]


def _lines(rows: Sequence[dict[str, Any]], trend: Sequence[str], *, is_detailed: bool) -> list[str]:
    """A table of the groups, and one of the partitions of each."""
    lines = plain_table([summary(row) for row in rows], (*GROUP_COLUMNS, *trend))
    for row in rows if is_detailed else ():
        lines.append("")
        if len(rows) > 1:
            lines.append(f"{row['group']}:")
        parts = partition_lines(row)
        columns = (*PARTITION_COLUMNS, *trend, *(("error",) if any(part["error"] for part in parts) else ()))
        lines += plain_table(parts, columns)
    return lines
