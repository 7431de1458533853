"""The code blocks of the documentation's pages."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHELL = ""  # blocks of commands name no language

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its language, "" for none, and its text."""

    language: str
    text: str


def text_of(page: str) -> str:
    """A page, by its path below the root of the repository."""
    return (ROOT / page).read_text()


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page's text, in their order."""
    return [Block(language, body) for language, body in _BLOCK.findall(text)]


def programs(page: str) -> list[str]:
    """The Python blocks of a page."""
    return [body for language, body in blocks(text_of(page)) if language == "python"]


def without_blocks(text: str) -> str:
    """The prose of a page's text."""
    return _BLOCK.sub("", text)


def joined_lines(block: str) -> list[str]:
    """The commands of a shell block: a line that ends with a backslash continues in the next one."""
    return block.replace("\\\n", " ").splitlines()
