"""Moves the fragments of this folder into CHANGELOG.md; `make changelog` runs it.

A fragment is `<name>.<kind>.md` with one line, `Area: sentence.`, whose sentence starts with the config key,
command or API. Errors: ValueError with the fragment; CHANGELOG.md is unchanged then.
"""

from __future__ import annotations

import re
from pathlib import Path

KINDS = ("added", "changed", "fixed", "removed", "format")  # format: a change of bytes on disk or on the wire
AREAS = (
    "Servers",
    "Clients",
    "Groups and transactions",
    "Kafka protocol",
    "Pipelines",
    "Security",
    "Operations",
    "Tools",
)
FOLDER = Path(__file__).parent
_NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")


def fragments(folder: Path = FOLDER) -> list[tuple[Path, str, str, str]]:
    """(file, area, kind, sentence) of all fragments, sorted by file name."""
    found = []
    for path in sorted(path for path in folder.iterdir() if path.suffix == ".md"):
        name = _NAME.fullmatch(path.name)
        area, _, sentence = path.read_text().strip().partition(": ")
        if name is None or area not in AREAS or not sentence.endswith(".") or "\n" in sentence:
            raise ValueError(
                f"{path.name}: name it <name>.<{'|'.join(KINDS)}>.md, with one line `Area: sentence.`"
            )
        found.append((path, area, name[1], sentence))
    return found


def with_entry(changelog: str, area: str, kind: str, sentence: str) -> str:
    """The text with one more entry at the end of its kind, under the first heading of the area."""
    start = changelog.index(f"### {area}\n")
    following = re.compile(r"^##?#? ", re.MULTILINE).search(changelog, start + 1)
    end = following.start() if following else len(changelog)
    section = changelog[start:end].rstrip("\n")
    heading = f"#### {kind.capitalize()}\n"
    if heading not in section:
        section += f"\n\n{heading}"
    position = section.index(heading) + len(heading)
    after = section.find("\n\n####", position)
    after = len(section) if after < 0 else after
    body = section[position:after].rstrip("\n")
    entries = f"{body}\n- {sentence}" if body else f"- {sentence}"
    return (
        f"{changelog[:start]}{section[:position]}{entries}{section[after:]}\n\n{changelog[end:]}".rstrip()
        + "\n"
    )


def main() -> None:
    """Move all fragments."""
    target = FOLDER.parent / "CHANGELOG.md"
    text, found = target.read_text(), fragments()
    for _, area, kind, sentence in found:
        text = with_entry(text, area, kind, sentence)
    target.write_text(text)
    for path, *_ in found:
        path.unlink()


if __name__ == "__main__":
    main()
