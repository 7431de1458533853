"""The README as package indexes show it: links into the repository become absolute. Run by setup.py; pure."""

from __future__ import annotations

import re

REPOSITORY = "https://github.com/headrace/headrace"
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z]+:|#|/)([^)\s]+)\)")


def absolute_links(markdown: str, revision: str = "main") -> str:
    """Relative links lead to the files of `revision`, pictures to their bytes."""

    def absolute(match: re.Match[str]) -> str:
        head, path = match.groups()
        kind = "raw" if head.startswith("!") else "blob"
        return f"{head}{REPOSITORY}/{kind}/{revision}/{path})"

    return _LINK.sub(absolute, markdown)
