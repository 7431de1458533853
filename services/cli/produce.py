"""`headrace produce`: sends lines of standard input or of files as records, like `kcat -P`."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ...protocol.errors import MessageTooLargeError
from ..line_input import LineShape, split_records
from .common import (
    NotFoundError,
    PartialFailureError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
)
from .completion import topic_names
from .output import note, print_object
from .progress import BYTES, progress_bar, quiet_option
from .tokens import unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator


def header_pairs(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    """name=value texts in order; names may repeat. Errors: click.BadParameter."""
    pairs = []
    for text in values:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.BadParameter(f"{text!r} is not name=value", context, option)
        pairs.append((name, value))
    return pairs


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Delimiter between key and value in a line.")
@click.option("-k", "--key", metavar="TEXT", help="Key of all records.")
@click.option(
    "-D", "--delimiter", metavar="TEXT", default="\\n", show_default=True, help="Delimiter between records."
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Partition of all records.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=header_pairs,
    help="Header of all records; repeatable.",
)
@click.option("-z", "--compression", type=click.Choice(CODECS), help="Compression type of the batches.")
@click.option("-Z", "--null-when-empty", is_flag=True, help="Send an empty key or value as null.")
@click.option("-c", "--count", type=click.IntRange(min=0), help="Stop after this many records.")
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def produce(settings: Settings, *, topic: str, files: tuple[str, ...], **options: Any) -> None:
    """Send the lines of FILES, or of standard input, as records to TOPIC."""
    delimiter = unescaped(options["delimiter"])
    if not delimiter:
        raise click.BadParameter("the delimiter must not be empty", param_hint="-D")
    shape = LineShape(
        delimiter,
        None if options["key_delimiter"] is None else unescaped(options["key_delimiter"]),
        None if options["key"] is None else options["key"].encode(),
        options["null_when_empty"],
        options["count"],
    )
    config = settings.client_config()
    if options["compression"]:
        config["compression.type"] = options["compression"]
    tally = _send(settings.addresses(), config, topic, files, shape, options["partition"], options["headers"])
    if not settings.is_text:
        print_object({"topic": topic, "sent": tally.sent, "failed": tally.failed}, settings.form)
    else:
        note(f"{tally.sent} {'record' if tally.sent == 1 else 'records'} sent to {topic}")
    if tally.first_error is not None:
        if not tally.sent:
            raise tally.first_error
        raise PartialFailureError(f"{tally.failed} records failed, first: {tally.first_error}")


@dataclass
class _Tally:
    """Outcomes of the sends; counted by the client's IO thread, read after the flush."""

    sent: int = 0
    failed: int = 0
    first_error: BaseException | None = field(default=None)

    def settle(self, future: Any) -> None:
        error = future.exception()
        if error is None:
            self.sent += 1
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self.failed += 1
        self.first_error = self.first_error or error


def _send(
    bootstrap: str | None,
    config: dict[str, str],
    topic: str,
    files: tuple[str, ...],
    shape: LineShape,
    partition: int | None,
    headers: list[tuple[str, str]],
) -> _Tally:
    from ...clients.config import AdminConfig, ConnectionConfig, ProducerConfig, given
    from ...clients.sync.cluster_io import connect

    given(config, {}, (ProducerConfig, AdminConfig, ConnectionConfig))  # no keys of consumers
    tally = _Tally()
    size_bytes = None if not files or "-" in files else sum(Path(file).stat().st_size for file in files)
    with connect(bootstrap, config=config) as cluster, progress_bar("sending", size_bytes, BYTES) as advance:
        # checked here: a producer would wait for a topic or partition that may still be created
        there = len(cluster.admin().describe_topics(topic)[topic].partitions)
        if partition is not None and partition >= there:
            raise NotFoundError(f"topic {topic!r} has no partition {partition}: it has {there} partitions")
        producer = cluster.producer()
        for key, value in split_records(_chunks(files, advance), shape):
            try:
                future = producer.send(topic, value, key=key, partition=partition, headers=headers)
            except MessageTooLargeError as error:  # the other records can still be sent
                tally.fail(error)
            else:
                future.add_done_callback(tally.settle)
        producer.flush()
    return tally


def _chunks(files: tuple[str, ...], advance: Any) -> Iterator[bytes | None]:
    """The bytes of all inputs; None after each file, which ends a record."""
    for file in files or ("-",):
        with _opened(file) as stream:
            while chunk := stream.read1(65_536):  # type: ignore[attr-defined]
                yield chunk
                advance(len(chunk))
        yield None


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        if sys.stdin.isatty():
            note("type one record per line; Ctrl-D ends")
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as stream:
        yield stream
