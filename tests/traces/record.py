"""Compare the traces with the conversations as they are now; `make traces REWRITE=1` writes them again.

Exits with 1 if a trace differs, after printing the difference.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sim"), str(HERE.parent / "fakes")]

from conversations import CONVERSATIONS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def path_of(conversation: Callable[[], list[str]]) -> Path:
    """The file of its trace."""
    return HERE / f"{conversation.__name__}.txt"


def text_of(conversation: Callable[[], list[str]]) -> str:
    """The trace as it is now: the title, then the conversation."""
    title = [f"# {line.strip()}" for line in (conversation.__doc__ or "").splitlines()]
    return "\n".join([*title, *conversation()]) + "\n"


def difference(conversation: Callable[[], list[str]]) -> str:
    """What has changed since the trace was written; nothing if nothing has."""
    path = path_of(conversation)
    before = path.read_text().splitlines() if path.exists() else []
    after = text_of(conversation).splitlines()
    return "\n".join(difflib.unified_diff(before, after, path.name, "now", lineterm=""))


def main() -> int:
    """Compare or write all traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help="write the traces again")
    if parser.parse_args().rewrite:
        for conversation in CONVERSATIONS:
            path_of(conversation).write_text(text_of(conversation))
        return 0
    differences = [text for conversation in CONVERSATIONS if (text := difference(conversation))]
    sys.stdout.write("\n".join(differences) + "\n" if differences else "the traces are as recorded\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
