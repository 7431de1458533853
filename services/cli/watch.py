"""The option --watch of commands that list, describe or show a status: they repeat until Ctrl-C.

On a terminal each turn replaces the one before, on the alternate screen; elsewhere a turn follows the other.
With -o json a turn is one line. Ctrl-C exits with 130, as it does everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from ...protocol.errors import HeadraceError
from ...runtime.waiting_io import let_pass
from .common import EXIT_ERROR, find_settings
from .interrupts import interrupts
from .output import ONE_LINE_JSON, note, write_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


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
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta[ONE_LINE_JSON] = True
        done, exit_code = 0, 0
        with interrupts(), _turns(self.interval_s) as turn:
            while True:
                began_s = time.monotonic()
                with turn(done):
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
    try:
        refresh()
    except click.exceptions.Exit as end:
        return end.exit_code
    except HeadraceError as error:
        if is_first:
            raise
        note(f"headrace: {error}")
        return EXIT_ERROR
    return 0


Turn = Callable[[int], "contextlib.AbstractContextManager[None]"]


@contextlib.contextmanager
def _turns(interval_s: float) -> Iterator[Turn]:
    """How a turn is printed; takes the number of turns before it."""
    if not sys.stdout.isatty() or not find_settings().is_text:
        yield _appended
        return
    terminal = sys.stdout
    terminal.write(_ENTER)
    try:
        yield functools.partial(_replaced, terminal, interval_s)
    finally:
        terminal.write(_LEAVE)
        terminal.flush()


@contextlib.contextmanager
def _appended(number: int) -> Iterator[None]:
    if number and find_settings().is_text:
        write_line("")
    try:
        yield
    finally:
        sys.stdout.flush()


class _Page(io.StringIO):
    """The output of a turn, for the terminal."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def _replaced(terminal: TextIO, interval_s: float, _number: int) -> Iterator[None]:
    """Replaces the page in one write, so that nothing flickers; what does not fit is left out."""
    page = _Page()
    # Messages belong to the page, too: on the terminal they would be in its way.
    errors = page if sys.stderr.isatty() else sys.stderr
    with contextlib.redirect_stdout(page), contextlib.redirect_stderr(errors):
        yield
    height = shutil.get_terminal_size().lines
    head = f"every {interval_s:g} s, Ctrl-C ends it; {datetime.now().astimezone():%H:%M:%S}"
    lines = [head, "", *page.getvalue().splitlines()]
    if len(lines) > height:
        lines[height - 1 :] = [f"… {len(lines) - height + 1} more lines"]
    terminal.write(_HOME + "\n".join(line + _END_OF_LINE for line in lines) + _END_OF_SCREEN)
    terminal.flush()
