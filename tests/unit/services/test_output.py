"""The output of commands: tables, JSON, sizes and bytes."""

import json
import os
import pty
import subprocess
import sys

import pytest
from headrace.services.cli.output import plain_table, print_object, print_rows, shown_bytes, size_text

ROWS = [{"name": "a", "count": 5, "extra": 1}, {"name": "long name", "count": 12}]


def test_table_columns_are_aligned() -> None:
    """Text to the left, numbers to the right, two spaces between, none at the end."""
    assert plain_table(ROWS, ("name", "count")) == [
        "NAME       COUNT",
        "a              5",
        "long name     12",
    ]


def test_empty_table_has_its_header() -> None:
    """No row is a result as well."""
    assert plain_table([], ("name", "log_dir")) == ["NAME  LOG-DIR"]


def test_cells_of_none_booleans_and_lists() -> None:
    row = {"a": None, "b": True, "c": [1, 2]}
    assert plain_table([row], ("a", "b", "c"))[1].split() == ["-", "yes", "1,2"]


@pytest.mark.parametrize(("no_color", "is_plain"), [(None, False), ("", False), ("0", True), ("1", True)])
def test_no_color_makes_a_plain_table_on_a_terminal(no_color: str | None, is_plain: bool) -> None:
    """With a non-empty NO_COLOR a terminal gets the same table as a file."""
    program = (
        "from headrace.services.cli.output import print_rows;"
        " print_rows([{'name': 'a', 'count': 5}], ('name', 'count'), 'text')"
    )
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    if no_color is not None:
        environment["NO_COLOR"] = no_color
    master, terminal = pty.openpty()
    with open(master, "rb", buffering=0) as output, open(terminal, "wb", buffering=0) as end:
        subprocess.run([sys.executable, "-c", program], stdout=end, env=environment, check=True)
        text = output.read(65_536).decode()
    plain = "\r\n".join([*plain_table([{"name": "a", "count": 5}], ("name", "count")), ""])
    assert (text == plain) is is_plain
    assert ("\x1b[" in text) is not is_plain


def test_json_and_jsonl_have_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those that the table leaves out."""
    print_rows(ROWS, ("name",), "json")
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows(ROWS, ("name",), "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_object_is_printed_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Names are padded so that the values form a column."""
    print_object({"a": 1, "long": "x"}, "text")
    assert capsys.readouterr().out == "a:    1\nlong: x\n"


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**40, "1.0 TiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_sizes(size_bytes: int, expected: str) -> None:
    """The unit changes at 1024."""
    assert size_text(size_bytes) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, "(null)"),
        (b"", ""),
        ("grün".encode(), "grün"),
        (b"a\nb\x00\xff", r"a\nb\x00\xff"),
        (b"\x1b[31m", r"\x1b[31m"),
        (b"x" * 100, "x" * 59 + "…"),
    ],
)
def test_control_characters_are_escaped(data: bytes | None, expected: str) -> None:
    """Broken UTF-8 too; long values are cut."""
    assert shown_bytes(data) == expected
