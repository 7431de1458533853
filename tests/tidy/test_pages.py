"""The pages name what exists: files, make targets, commands with their options, keys and functions."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from headrace.benchmarks.cells import GROUPS
from headrace.services.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "PROFILES.md"]
)
CODE = (
    "protocol",
    "runtime",
    "storage_node",
    "controller",
    "coordinators",
    "clients",
    "services",
    "benchmarks",
    "tests",
)
# Written by a run of something else, in the words of that.
FOREIGN_PAGES = {"docs/COMPATIBILITY.md"}
# What is not ours and is spelled nowhere in the code.
FOREIGN = {"reset_index", "memmove", "zmq_msg_t", "area", "src", "name.tmp"}

CELLS = {cell.name for group in GROUPS for cell in group.cells}


@functools.cache
def code() -> str:
    """All code and build files, where a name that a page gives must stand."""
    paths = [path for folder in CODE for path in (ROOT / folder).rglob("*.p*") if path.suffix != ".pyc"]
    paths += [ROOT / name for name in ("Makefile", "pyproject.toml", "__init__.py", "aio.py", ".ci/run")]
    this = Path(__file__)
    names = [str(path.relative_to(ROOT)) for path in paths]
    return "\n".join([*names, *(path.read_text() for path in paths if path != this)])


@functools.cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def spans(page: str) -> list[str]:
    """What a page sets as code inside its prose."""
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", prose)


def command_lines(page: str, program: str) -> list[str]:
    """The calls of a program that a page shows, in its code blocks and in its prose."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    lines = [line for language, block in blocks if not language for line in block.splitlines()]
    lines += spans(page)
    found = (re.match(rf"(?:[A-Z_]+=\S+ |.*\| )*{program} (.*)", line) for line in lines)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in FOREIGN_PAGES])
def test_every_name_exists(page: str) -> None:
    """Each word of a page that is set as code stands in the code: keys, options, fields, functions."""
    groups = {group.id for group in GROUPS}
    missing = {
        word
        for span in spans(page)
        for word in re.findall(r"[A-Za-z_](?:[\w.\-]*\w)?", span)
        if word not in code() and word not in FOREIGN | groups and word.rpartition(".")[2] not in code()
    }
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """Relative links, and the anchors' files."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page))
    folder = (ROOT / page).parent
    assert not [to for to in targets if "://" not in to and not (folder / to).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_exists(page: str) -> None:
    """And the variables that it is given."""
    makefile = (ROOT / "Makefile").read_text()
    for call in command_lines(page, "make"):
        for word in shlex.split(call, comments=True):
            name, is_variable, _ = word.partition("=")
            if is_variable:
                assert f"$({name})" in makefile or f"$(value {name})" in makefile, call
            else:
                assert re.search(rf"^{re.escape(name)}:", makefile, re.MULTILINE), call


@pytest.mark.parametrize("page", PAGES)
def test_every_command_takes_what_is_shown_with_it(page: str) -> None:
    """`headrace …`: the command and its long options."""
    for call in command_lines(page, "headrace"):
        if f"headrace {call}" in CELLS or call in ("…", "..."):
            continue
        words = shlex.split(call, comments=True)
        command: Any = cli
        options = {name for parameter in command.params for name in parameter.opts}
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
            options |= {name for parameter in command.params for name in parameter.opts}
        assert command is not cli, call
        assert not [word for word in words if word.startswith("--") and word not in options], call


def test_the_pages_show_calls() -> None:
    """The patterns that find them still do."""
    assert len(command_lines("docs/BENCH.md", "headrace")) >= 8
    assert len(command_lines("README.md", "headrace")) >= 7
    assert len(command_lines("README.md", "make")) >= 4
