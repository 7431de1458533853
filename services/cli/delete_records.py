"""`headrace topic delete-records`: advance the log start offset of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.errors import ConfigError
from .admin import open_admin, raise_first
from .common import (
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
)
from .completion import topic_names
from .output import print_rows

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition

_END = "end"


@click.command("delete-records")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=topic_names)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition; repeatable.",
)
@click.option("--offset", metavar="N|end", help="Delete records before this offset; end: the high watermark.")
@click.option(
    "--offset-json-file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Partitions and offsets in the JSON of kafka-delete-records.sh; -1 is the high watermark.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option)
def delete_records(
    settings: Settings,
    *,
    name: str | None,
    partitions: tuple[int, ...],
    offset: str | None,
    path: str | None,
    is_sure: bool,
) -> None:
    """Delete the records before an offset permanently: in partitions of topic NAME, or in those of a file.

    Without -p, `--offset end` empties all partitions. Prints the new log start offset of each partition; all
    live replicas have it.
    """
    _check_usage(name, partitions, offset, path)
    with open_admin(settings, settings.client_config()) as admin:
        if path is not None:
            wanted = _of_file(path, name)
        else:
            assert name is not None, "checked above"
            wanted = _of_options(admin, name, partitions, offset or _END)
        if not is_sure:
            topics = ", ".join(sorted({place.topic for place in wanted}))
            click.confirm(f"Delete records of {len(wanted)} partitions of {topics}?", abort=True, err=True)
        results = admin.delete_records(wanted)
        done = sorted(place for place in results if place not in results.errors)
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "low_watermark": results[place].low_watermark,
            }
            for place in done
        ]
        if rows or not settings.is_text:
            print_rows(rows, ("topic", "partition", "low_watermark"), settings.form)
        errors = {str(place): error for place, error in results.errors.items()}
        raise_first(errors, len(wanted), "partitions")


def _check_usage(name: str | None, partitions: tuple[int, ...], offset: str | None, path: str | None) -> None:
    if path is not None:
        if offset is not None or partitions:
            raise click.UsageError("--offset-json-file excludes --partition and --offset")
        return
    if name is None or offset is None:
        raise click.UsageError("give NAME and --offset, or --offset-json-file")
    if offset != _END:
        if not offset.isdecimal() or int(offset) >= 1 << 63:
            raise click.UsageError(f"--offset must be a number or end, not {offset!r}")
        if not partitions:
            raise click.UsageError("a numeric --offset needs --partition")


def _of_file(path: str, name: str | None) -> dict[TopicPartition, int]:
    from ..record_offsets import MAX_FILE_BYTES, offsets_of

    file = Path(path)
    if file.stat().st_size > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is too large")
    try:
        wanted = offsets_of(file.read_text())
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    others = sorted({place.topic for place in wanted} - {name or place.topic for place in wanted})
    if others:
        raise ConfigError(f"{path} names topic {others[0]!r} as well, not {name!r} alone")
    return wanted


def _of_options(
    admin: Admin, name: str, partitions: tuple[int, ...], offset: str
) -> dict[TopicPartition, int]:
    from ...protocol.model import TopicPartition
    from ..record_offsets import ALL_COMMITTED

    numbers = partitions
    if not numbers:
        described = admin.describe_topics(name)
        raise_first(described.errors, 1)
        numbers = tuple(part.partition for part in described[name].partitions)
    upto = ALL_COMMITTED if offset == _END else int(offset)
    return {TopicPartition(name, number): upto for number in numbers}
