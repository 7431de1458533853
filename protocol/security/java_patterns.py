"""Replacement texts of Java's regular expressions, which Kafka's mapping rules use. Pure.

Source: java.util.regex.Matcher.appendReplacement.
"""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"\$([0-9])|\\(.)", re.DOTALL)


def expanded(match: re.Match[str], replacement: str) -> str:
    r"""The replacement for one match: `$1` is a group, `\x` the character itself. A reference to a group that
    the pattern does not have is left unchanged."""
    return _REFERENCE.sub(lambda found: _group(match, found), replacement)


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    if reference[1] is None:
        return reference[2]
    number = int(reference[1])
    return (match[number] or "") if number <= match.re.groups else reference[0]
