"""`headrace lag`: what groups have not read yet, in records and in seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from ...protocol.model import ISOLATION_LEVELS
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
from .output import plain_table, print_rows, write_line
from .watch import Watch, with_watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...clients.admin.admin_types import Results
    from ...clients.admin.lag_types import ConsumerGroupLag

isolation_option = click.option(
    "--isolation",
    type=click.Choice(ISOLATION_LEVELS),
    default=ISOLATION_LEVELS[-1],
    show_default=True,
    help="Count the records that consumers with this isolation level have not received yet.",
)


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
@isolation_option
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@with_watch
def lag(
    settings: Settings,
    *,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    has_partitions: bool,
    isolation: str,
    watch: Watch,
) -> None:
    """Show how many records groups have not read yet, and the age of the oldest one.

    Counted by the leaders, exactly: what compaction removed and transaction markers are no lag, and aborted
    records only with --isolation read_uncommitted, which counts up to the high watermark, open transactions
    included. Shows each partition of groups that are named, and a line for each group otherwise. Groups of
    all types that commit offsets: classic, consumer and streams groups.

    With --watch: offsets consumed and produced per second, the change of the lag per second, and the time
    until there is none.
    """
    is_detailed = has_partitions or bool(names)
    trends = Trends()
    with open_admin(settings, settings.client_config()) as admin:

        def show() -> None:
            results = admin.consumer_group_lag(*names, topics=topics or None, isolation=isolation)
            found = found_lags(results)
            rows = trends.rows_of(found, time.monotonic()) if watch.is_on else [*map(group_row, found)]
            if settings.is_text:
                columns = TREND_COLUMNS if watch.is_on else ()
                write_line("\n".join(_lines(rows, columns, is_detailed=is_detailed)))
            else:
                print_rows(rows, (), settings.form)
            raise_first(results.errors, len(results), "groups")

        watch.run(show)


def found_lags(results: Results[str, ConsumerGroupLag]) -> list[ConsumerGroupLag]:
    """Those without an error."""
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
