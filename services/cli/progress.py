"""The progress of commands that last: the only display of it, on standard error.

There is none if standard error is not a terminal, with -q, with -o json, jsonl or yaml, and while another
output of the command goes to the terminal line by line (see `progress_bar`).
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .common import find_settings
from .output import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, Task

F = TypeVar("F", bound="Callable[..., Any]")

BYTES = "bytes"
SHOWS_PROGRESS = "headrace_shows_progress"  # an attribute of the function behind a click command
_shown: list[Progress] = []  # the display of the outermost bar, which inner ones join


class ProgressBar:
    """One line of the display, if there is one; a call adds the amount of further work done."""

    def __init__(self, progress: Progress | None, title: str, total: float | None, unit: str) -> None:
        self._progress = progress
        if progress is not None:
            self._task = progress.add_task(title, total=total, unit=unit)

    def __call__(self, done: float) -> None:
        if self._progress is not None:
            self._progress.update(self._task, advance=done)

    def reach(self, done: float, total: float | None = None) -> None:
        """Set the amount of all work done, and the total if it is known by now."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total)

    def describe(self, title: str) -> None:
        """Replace the title."""
        if self._progress is not None:
            self._progress.update(self._task, description=title)

    def end(self) -> None:
        """Take the line out of the display."""
        if self._progress is not None:
            self._progress.remove_task(self._task)


def quiet_option(command: F) -> F:
    """-q; commands with it show a `progress_bar`. Place it above `reading_command` or `changing_command`."""
    setattr(command, SHOWS_PROGRESS, True)
    return click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Show no progress.")(command)


@contextlib.contextmanager
def progress_bar(
    title: str, total: float | None = None, unit: str = "", *, prints_lines: bool = False
) -> Iterator[ProgressBar]:
    """A line with the amount, the rate and, with a known total, the remaining time; within another bar a line
    below its.

    `unit` is BYTES, a plural such as "partitions", or empty for work without an amount: only its duration is
    shown. `prints_lines`: the result is printed while the work is done, so that the bar would be in its way
    on a terminal.
    """
    if not is_shown(prints_lines=prints_lines):
        yield ProgressBar(None, title, total, unit)
        return
    with _display() as progress:
        bar = ProgressBar(progress, title, total, unit)
        try:
            yield bar
        finally:
            bar.end()


def is_shown(*, prints_lines: bool = False) -> bool:
    """Whether a bar would be displayed."""
    if not sys.stderr.isatty() or (prints_lines and sys.stdout.isatty()):
        return False
    settings = find_settings()
    return settings.is_text and not settings.is_quiet


@contextlib.contextmanager
def _display() -> Iterator[Progress]:
    if _shown:
        yield _shown[-1]
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=24),
        _amounts(),
    )
    # A result on standard output must not become a part of the display, which is on standard error.
    with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as progress:
        _shown.append(progress)
        try:
            yield progress
        finally:
            _shown.pop()


def _amounts() -> Any:
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Amounts(ProgressColumn):
        """The text behind the bar."""

        def render(self, task: Task) -> Text:
            return Text(
                amounts_text(
                    task.completed,
                    task.total,
                    task.fields["unit"],
                    task.speed,
                    task.time_remaining,
                    task.elapsed or 0.0,
                )
            )

    return Amounts()


def amounts_text(
    done: float, total: float | None, unit: str, rate: float | None, left_s: float | None, elapsed_s: float
) -> str:
    """`12/40 partitions, 3.1 partitions/s, 0:00:09 left`; without a total the elapsed time."""
    if not unit:
        return clock_text(elapsed_s)
    if unit == BYTES:
        amounts = size_text(done) + ("" if total is None else f" of {size_text(total)}")
        shown_rate = None if rate is None else f"{size_text(rate)}/s"
    else:
        amounts = f"{done:,.0f}" + (f" {unit}" if total is None else f" of {total:,.0f} {unit}")
        shown_rate = None if rate is None else f"{rate:,.1f}/s"
    left = f"{clock_text(left_s)} left" if total is not None and left_s is not None else clock_text(elapsed_s)
    return ", ".join(part for part in (amounts, shown_rate, left) if part)


def clock_text(seconds: float) -> str:
    """Hours, minutes and seconds, such as 0:00:09."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
