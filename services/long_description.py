"""The README for package indexes: relative links become absolute. Run by setup.py; pure."""

from __future__ import annotations

import re

REPOSITORY = "https://github.com/headrace/headrace"
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z]+:|#|/)([^)\s]+)\)")


def absolute_links(markdown: str, revision: str = "main") -> str:
    """Relative links point to the files of `revision`, images to their raw bytes."""

    def absolute(match: re.Match[str]) -> str:
        head, path = match.groups()
        kind = "raw" if head.startswith("!") else "blob"
        return f"{head}{REPOSITORY}/{kind}/{revision}/{path})"

    return _LINK.sub(absolute, markdown)
