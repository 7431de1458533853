"""A progress bar on standard error; disabled if that is not a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(title: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """A function that takes the number of further bytes done; `total_bytes` None if unknown."""
    if not sys.stderr.isatty():
        yield lambda _size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total_bytes)
        yield lambda size_bytes: progress.update(task, advance=size_bytes)
