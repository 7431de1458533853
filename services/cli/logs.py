"""`headrace log …`: dumps of log files, headrace's or Apache Kafka's, and the log dirs of nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from .admin import open_admin, raise_first
from .common import (
    NotFoundError,
    Settings,
    bootstrap_option,
    cluster_option,
    config_option,
    form_option,
    reading_command,
)
from .completion import node_ids, topic_names
from .output import (
    TEXT_FORMATS,
    OutputFormat,
    note,
    print_rows,
    print_stream,
    size_text,
    write_line,
)
from .progress import BYTES, is_shown, progress_bar, quiet_option
from .watch import watchable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...clients.admin.admin_types import LogDirInfo

_DIR_COLUMNS = ("node", "log_dir", "state", "replicas", "size", "usable", "total", "cordoned")
_REPLICA_COLUMNS: tuple[str, ...] = ("node", "log_dir", "topic", "partition", "size", "offset_lag", "future")


class DamageError(HeadraceError):
    """A file of a log is damaged."""


@click.group()
def log() -> None:
    """Dump the files of logs, and describe the log dirs of nodes."""


@log.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH…")
@click.option(
    "--records/--batches",
    "has_records",
    default=True,
    help="Print the records, or the headers of batches only.",
)
@click.option(
    "--verify", is_flag=True, help="Check indexes, epochs, snapshots and checkpoints against the logs."
)
@click.option("--faults", "only_faults", is_flag=True, help="Print faults only; implies --verify.")
@reading_command(form_option, quiet_option)
def dump(
    settings: Settings, *, paths: tuple[str, ...], has_records: bool, verify: bool, only_faults: bool
) -> None:
    """Print the content of segments, indexes, snapshots and checkpoints.

    PATH is a file, the directory of a partition, or the log dir of a stopped node. Exit code 1 if a file is
    damaged.
    """
    from ...runtime.files.files_io import OsFiles
    from ...storage_node.log.dump_folders import dump_path

    faults = 0
    files = {path: _files_below(path) for path in paths} if is_shown(prints_lines=not only_faults) else {}

    def entries() -> Iterator[tuple[str, Any]]:
        nonlocal faults
        for path in paths:
            absolute = os.path.abspath(path)
            found = dump_path(
                OsFiles(), absolute, has_records=has_records and not only_faults, verify=verify or only_faults
            )
            for file, entry in found:
                shown = path + file.removeprefix(absolute)
                bar(files.get(path, {}).pop(file, 0))
                if entry.is_fault:
                    faults += 1
                    note(f"headrace: {shown}: {entry.text()}")
                if entry.is_fault or not only_faults:
                    yield shown, entry

    is_one_file = len(paths) == 1 and not os.path.isdir(paths[0])
    total = sum(sum(sizes.values()) for sizes in files.values())
    with progress_bar("reading", total, BYTES, prints_lines=not only_faults) as bar:
        _print(entries(), settings.form, shows_file=not is_one_file)
    if faults:
        raise DamageError(f"{faults} {'fault' if faults == 1 else 'faults'} found")


@log.command()
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(min=0),
    multiple=True,
    shell_complete=node_ids,
    help="Only this node; repeatable.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    shell_complete=topic_names,
    help="List the replicas of this topic; repeatable.",
)
@reading_command(bootstrap_option, cluster_option, config_option, form_option)
@watchable
def dirs(settings: Settings, *, nodes: tuple[int, ...], topics: tuple[str, ...]) -> None:
    """List the log dirs of nodes: state, size of the logs, free space; with --topic, the replicas."""
    with open_admin(settings, settings.client_config()) as admin:
        results = admin.describe_log_dirs(nodes or None)
    found = [(node, each) for node in sorted(results) if node not in results.errors for each in results[node]]
    if topics:
        rows = [row for node, each in found for row in _replica_rows(node, each, topics, settings.form)]
        missing = sorted(set(topics) - {row["topic"] for row in rows})
        if missing and not results.errors:
            raise NotFoundError(f"topic {missing[0]!r} has no replica on {_where(nodes)}")
        columns = _REPLICA_COLUMNS
    else:
        rows = [_dir_row(node, each, settings.form) for node, each in found]
        columns = _DIR_COLUMNS
    if rows or not settings.is_text:
        print_rows(rows, columns, settings.form)
    raise_first({f"node {node}": error for node, error in results.errors.items()}, len(results), "nodes")


def _files_below(path: str) -> dict[str, int]:
    """Sizes of the file, or of all files below the folder, by absolute path."""
    top = Path(os.path.abspath(path))
    found = [top] if top.is_file() else [each for each in top.rglob("*") if each.is_file()]
    return {str(each): each.stat().st_size for each in found}


def _where(nodes: tuple[int, ...]) -> str:
    return f"nodes {', '.join(map(str, nodes))}" if nodes else "any node"


def _dir_row(node: int, info: LogDirInfo, form: OutputFormat) -> dict[str, Any]:
    state = "offline" if info.error is not None else "full" if info.detail else "online"
    row: dict[str, Any] = {
        "node": node,
        "log_dir": info.path,
        "state": state,
        "replicas": len(info.replicas),
        "size": _size(sum(each.size_bytes for each in info.replicas), form),
        "usable": _size(info.usable_bytes, form),
        "total": _size(info.total_bytes, form),
        "cordoned": info.is_cordoned,
    }
    return row | {"detail": info.detail} if info.detail else row


def _replica_rows(
    node: int, info: LogDirInfo, topics: tuple[str, ...], form: OutputFormat
) -> list[dict[str, Any]]:
    return [
        {
            "node": node,
            "log_dir": info.path,
            "topic": each.topic,
            "partition": each.partition,
            "size": _size(each.size_bytes, form),
            "offset_lag": each.offset_lag,
            "future": each.is_future,
        }
        for each in info.replicas
        if each.topic in topics
    ]


def _size(size_bytes: int, form: OutputFormat) -> int | str:
    if form not in TEXT_FORMATS:
        return size_bytes
    return size_text(size_bytes) if size_bytes >= 0 else "?"


def _print(entries: Iterator[tuple[str, Any]], form: OutputFormat, *, shows_file: bool) -> None:
    """Print entries one by one; a file may be larger than the memory."""
    if form not in TEXT_FORMATS:
        rows = (
            {"file": file, **entry.to_mapping()} if shows_file else entry.to_mapping()
            for file, entry in entries
        )
        print_stream(rows, form)
        return
    last = None
    for file, entry in entries:
        if shows_file and file != last:
            write_line(f"{file}:")
        write_line(entry.text())
        last = file
