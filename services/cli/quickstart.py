"""`headrace quickstart`: sends a file through a three-node cluster on Ray, reads it back and compares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import HeadraceError
from ..line_sources_io import LOG_FOLDER, input_files, text_files, total_bytes
from .common import Settings, changing_command, form_option
from .interrupts import interrupts
from .output import note, print_object, print_rows, shown_bytes, size_text, write_line
from .progress import BYTES, progress_bar, quiet_option

if TYPE_CHECKING:
    from ..quickstart import Outcome


class CheckFailedError(HeadraceError):
    """The lines that were read differ from those that were sent."""


@click.command()
@click.option(
    "-i",
    "--input",
    "path",
    metavar="PATH",
    help="File, or directory of text files; lines over 512 KiB are split [default: logs under"
    " /var/log, else process metrics].",
)
@click.option(
    "-k",
    "--key-field",
    "field_index",
    type=click.IntRange(min=1),
    help="Number of the field of a line to use as key, from 1 [default: a field with repeated values, such as"
    " a client address].",
)
@click.option(
    "--ray-address",
    metavar="ADDRESS",
    help="Ray cluster to run on, as for `up` [default: RAY_ADDRESS, or a new one].",
)
@click.option("--keep", is_flag=True, help="Keep the data files.")
@changing_command(form_option, quiet_option)
def quickstart(
    settings: Settings, *, path: str | None, field_index: int | None, ray_address: str | None, keep: bool
) -> None:
    """Send the lines of a file to a new three-node cluster on Ray, read them back, and compare all lines."""
    files = input_files(path) if path else text_files(Path(LOG_FOLDER))
    size_bytes = total_bytes(files)
    if files:
        names = str(files[0].path) if len(files) == 1 else f"{len(files)} files"
        note(f"input: {names}, {size_text(size_bytes)}")
    else:
        note(f"input: no readable logs under {LOG_FOLDER}: using ten seconds of process metrics instead")
    from .. import quickstart as flow

    with interrupts(), progress_bar("starting", size_bytes or None, BYTES) as bar:

        def report(text: str) -> None:
            note(text)
            bar.describe(text)

        outcome, data_dir = flow.run(
            files, field_index=field_index, ray_address=ray_address, keep=keep, report=report, advance=bar
        )
    kept = f"kept in {data_dir}" if keep else "removed at the end"
    _print(outcome, settings, kept)
    differences = outcome.differences()
    if differences:
        raise CheckFailedError("; ".join(differences))


def _print(outcome: Outcome, settings: Settings, kept: str) -> None:
    summary = _summary(outcome)
    places = [
        {
            "partition": place.partition,
            "node": place.node,
            "records": outcome.sent[place.partition].count,
            "size_bytes": place.size_bytes,
            "directory": place.directory,
        }
        for place in outcome.places
    ]
    keys = [{"key": shown_bytes(key), "lines": count} for key, count in outcome.top_keys]
    if not settings.is_text:
        print_object({**summary, "top_keys": keys, "partitions": places}, settings.form)
        return
    write_line("Most frequent keys, counted from the log")
    print_rows(keys, ("key", "lines"), "text")
    write_line("")
    write_line(f"Location of the data ({kept})")
    print_rows(
        [{**place, "size": size_text(float(str(place["size_bytes"])))} for place in places],
        ("partition", "node", "records", "size", "directory"),
        "text",
    )
    write_line("")
    write_line(f"in:   {_rate(outcome.total_sent.count, outcome.total_sent.size_bytes, outcome.send_s)}")
    write_line(f"out:  {_rate(outcome.total_read.count, outcome.total_read.size_bytes, outcome.read_s)}")
    write_line(f"sums: {outcome.total_sent} in")
    write_line(f"      {outcome.total_read} out")
    if summary["is_complete"]:
        write_line("ok: every line came back, in every partition")


def _summary(outcome: Outcome) -> dict[str, Any]:
    sent, read = outcome.total_sent, outcome.total_read
    return {
        "lines_in": sent.count,
        "lines_out": read.count,
        "bytes_in": sent.size_bytes,
        "bytes_out": read.size_bytes,
        "checksum_in": f"{sent.checksum:016x}",
        "checksum_out": f"{read.checksum:016x}",
        "seconds_in": round(outcome.send_s, 3),
        "seconds_out": round(outcome.read_s, 3),
        "is_complete": not outcome.differences(),
    }


def _rate(lines: int, size_bytes: int, seconds: float) -> str:
    text = f"{lines:,} lines, {size_text(size_bytes)} in {seconds:.2f} s"
    if seconds <= 0:
        return text
    return f"{text}: {lines / seconds:,.0f} lines/s, {size_text(size_bytes / seconds)}/s"
