"""`headrace log dump`: what is in the files of a log, ours or Apache Kafka's."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from .common import Settings, form_option, with_settings
from .output import OutputFormat, note, write_line

if TYPE_CHECKING:
    from collections.abc import Iterator


class DamageError(HeadraceError):
    """A file of a log is damaged."""


@click.group()
def log() -> None:
    """Look into the files of a log."""


@log.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE…"
)
@click.option("--records/--batches", "has_records", default=True, help="Records, or headers of batches only.")
@click.option("--verify", is_flag=True, help="Check an index against the .log file beside it.")
@with_settings(form_option)
def dump(settings: Settings, *, files: tuple[str, ...], has_records: bool, verify: bool) -> None:
    """Print segments, indexes, snapshots and checkpoints. Exit code 1 when something is damaged."""
    from ...storage_node.log.dump import dump_file
    from ...storage_node.log.files_io import OsFiles

    faults = 0

    def entries() -> Iterator[tuple[str, Any]]:
        nonlocal faults
        for file in files:
            for entry in dump_file(OsFiles(), os.path.abspath(file), has_records=has_records, verify=verify):
                if entry.is_fault:
                    faults += 1
                    note(f"headrace: {file}: {entry.text()}")
                yield file, entry

    _print(entries(), settings.form, shows_file=len(files) > 1)
    if faults:
        raise DamageError(f"{faults} {'fault' if faults == 1 else 'faults'} found")


def _print(entries: Iterator[tuple[str, Any]], form: OutputFormat, *, shows_file: bool) -> None:
    """Entries as they come; a file can be larger than the memory."""
    last = None
    for number, (file, entry) in enumerate(entries):
        if form == "text":
            if shows_file and file != last:
                write_line(f"{file}:")
            write_line(entry.text())
        else:
            mapping = entry.to_mapping()
            line = json.dumps({"file": file, **mapping} if shows_file else mapping, default=str)
            before = "" if form == "jsonl" else "," if number else "["
            write_line(before + line)
        last = file
    if form == "json":
        write_line("]" if last is not None else "[]")
