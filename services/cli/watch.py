"""The option --watch of commands that list, describe or show a status: they repeat until Ctrl-C."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import click

from ...runtime.waiting_io import let_pass
from .output import write_line

if TYPE_CHECKING:
    from collections.abc import Callable

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watchable(command: Callable[..., None]) -> Callable[..., None]:
    """Add --watch, --interval and --count to a command; place it below `reading_command`."""

    @functools.wraps(command)
    def watched(
        *arguments: Any, is_watched: bool, interval_s: float, refreshes: int | None, **given: Any
    ) -> None:
        if not is_watched:
            if refreshes is not None:
                raise click.UsageError("--count belongs to --watch")
            command(*arguments, **given)
            return
        done = 0
        while True:
            exit_code = _once(command, arguments, given, is_first=not done)
            done += 1
            if refreshes is not None and done >= refreshes:
                raise click.exceptions.Exit(exit_code)
            let_pass(interval_s)

    for option in (
        click.option(
            "--count", "refreshes", type=click.IntRange(min=1), help="End --watch after this many refreshes."
        ),
        click.option(
            "--interval",
            "interval_s",
            type=click.FloatRange(0.1),
            default=2.0,
            show_default=True,
            help="Seconds between the refreshes of --watch.",
        ),
        click.option("--watch", "is_watched", is_flag=True, help="Repeat it until Ctrl-C."),
    ):
        option(watched)
    return watched


def _once(command: Callable[..., None], arguments: Any, given: Any, *, is_first: bool) -> int:
    """One refresh; gives the exit code of a command that ends with one, such as a degraded status."""
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    elif not is_first:
        write_line("")
    try:
        command(*arguments, **given)
    except click.exceptions.Exit as end:
        return end.exit_code
    finally:
        sys.stdout.flush()
    return 0
