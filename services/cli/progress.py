"""A progress bar on standard error; disabled if that is not a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(
    title: str, total: float | None, *, is_bytes: bool = True
) -> Iterator[Callable[[float], None]]:
    """A function that takes the amount of further work done: bytes, or with `is_bytes` False steps.

    `total` is None if unknown.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    amounts = (
        (DownloadColumn(), TransferSpeedColumn()) if is_bytes else (MofNCompleteColumn(), TimeElapsedColumn())
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *amounts)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, advance=done)
