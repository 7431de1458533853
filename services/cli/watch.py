"""The option --watch of commands that list, describe or show a status: they repeat until Ctrl-C."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...protocol.errors import HeadraceError
from ...runtime.waiting_io import let_pass
from .output import note, write_line

if TYPE_CHECKING:
    from collections.abc import Callable

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class Watch(NamedTuple):
    """Whether a command repeats, how often in seconds, and how many times; None: until Ctrl-C."""

    is_on: bool
    interval_s: float
    refreshes: int | None

    def run(self, refresh: Callable[[], None]) -> None:
        """Call `refresh` once, or again and again. A refresh after the first one that fails is reported, and
        the next one is tried: a node may be restarting. Errors: click.exceptions.Exit with the exit code of
        the last refresh, such as that of a degraded status."""
        if not self.is_on:
            refresh()
            return
        done = 0
        while True:
            began_s = time.monotonic()
            exit_code = _once(refresh, is_first=not done)
            done += 1
            if done == self.refreshes:
                raise click.exceptions.Exit(exit_code)
            let_pass(max(began_s + self.interval_s - time.monotonic(), 0))


def with_watch(command: Callable[..., None]) -> Callable[..., None]:
    """Add --watch, --interval and --count to a command, which gets them as its argument `watch`; place it
    below `reading_command`."""

    @functools.wraps(command)
    def watching(
        *arguments: Any, is_watched: bool, interval_s: float, refreshes: int | None, **given: Any
    ) -> None:
        if not is_watched and refreshes is not None:
            raise click.UsageError("--count belongs to --watch")
        command(*arguments, watch=Watch(is_watched, interval_s, refreshes), **given)

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
        option(watching)
    return watching


def watchable(command: Callable[..., None]) -> Callable[..., None]:
    """As `with_watch`, for a command that keeps nothing between its refreshes."""

    @functools.wraps(command)
    def watched(*arguments: Any, watch: Watch, **given: Any) -> None:
        watch.run(lambda: command(*arguments, **given))

    return with_watch(watched)


def _once(refresh: Callable[[], None], *, is_first: bool) -> int:
    """One refresh; gives the exit code of a command that ends with one."""
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    elif not is_first:
        write_line("")
    try:
        refresh()
    except click.exceptions.Exit as end:
        return end.exit_code
    except HeadraceError as error:
        if is_first:
            raise
        note(f"headrace: {error}")
        return 1
    finally:
        sys.stdout.flush()
    return 0
