"""The progress display: its texts, where it is shown, and that it stays out of the results."""

import contextlib
import io
from collections.abc import Iterator

import click
import pytest
from headrace.services.cli import progress
from headrace.services.cli.common import Settings
from headrace.services.cli.progress import BYTES, amounts_text, is_shown, progress_bar


class Terminal(io.StringIO):
    """Standard error, as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def settings() -> Iterator[Settings]:
    """Those of the running command."""
    settings = Settings()
    with click.Context(click.Command("x"), obj=settings):
        yield settings


@pytest.mark.parametrize(
    ("done", "total", "unit", "rate", "left_s", "expected"),
    [
        (12, 40, "partitions", 3.14, 9, "12 of 40 partitions, 3.1/s, 0:00:09 left"),
        (1 << 20, 1 << 30, BYTES, 1 << 19, 3661, "1.0 MiB of 1.0 GiB, 512.0 KiB/s, 1:01:01 left"),
        (1500, None, "records", 70.0, None, "1,500 records, 70.0/s, 0:01:15"),
        (0, 3, "servers", None, None, "0 of 3 servers, 0:01:15"),
        (0, None, "", None, None, "0:01:15"),
    ],
)
def test_amounts_rate_and_remaining_time(
    done: float, total: float | None, unit: str, rate: float | None, left_s: float | None, expected: str
) -> None:
    """Without a total the elapsed time in place of the remaining one; without a unit that alone."""
    assert amounts_text(done, total, unit, rate, left_s, 75.4) == expected


def test_bars_are_shown_on_a_terminal_within_each_other(settings: Settings) -> None:
    """An inner bar is a line of the same display."""
    with (
        contextlib.redirect_stderr(Terminal()) as terminal,
        progress_bar("outer", 10, "servers") as outer,
        progress_bar("inner", None, BYTES) as inner,
    ):
        inner(2048)
        outer.reach(4)
        outer.describe("renamed")
        progress._shown[-1].refresh()
    shown = terminal.getvalue()
    assert "4 of 10 servers" in shown
    assert "2.0 KiB" in shown
    assert "renamed" in shown
    assert shown.endswith("\x1b[2K\x1b[?25h\r")  # erased at the end, with the cursor


@pytest.mark.parametrize("change", [{"form": "json"}, {"form": "yaml"}, {"is_quiet": True}])
def test_no_bar_with_machine_readable_output_or_quiet(settings: Settings, change: dict[str, object]) -> None:
    for name, value in change.items():
        setattr(settings, name, value)
    with (
        contextlib.redirect_stderr(Terminal()) as terminal,
        progress_bar("work", 10, "servers") as bar,
    ):
        bar(5)
    assert terminal.getvalue() == ""


def test_no_bar_elsewhere_than_on_a_terminal(settings: Settings) -> None:
    """Nor over lines that the command prints on the same terminal."""
    with contextlib.redirect_stderr(Terminal()):
        assert is_shown()
        with contextlib.redirect_stdout(Terminal()):
            assert not is_shown(prints_lines=True)
    with contextlib.redirect_stderr(io.StringIO()):
        assert not is_shown()
