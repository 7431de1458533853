"""`headrace stream`: run, describe and reset applications of headrace.stream."""

from __future__ import annotations

import click

from .stream_reset import reset


@click.group("stream")
def group() -> None:
    """Streams applications."""


group.add_command(reset)
