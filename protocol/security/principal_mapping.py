"""`ssl.principal.mapping.rules`: from the distinguished name of a client certificate to a user name. Pure.

Source: Kafka SslPrincipalMapper.java; KIP-371.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .java_patterns import expanded

_DEFAULT = "DEFAULT"
_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))\s*(?:,\s*|$)"
)


class PrincipalMappingError(ValueError):
    """The rules are not valid."""


class NoRuleError(ValueError):
    """No rule applies to a name: the connection is rejected, as in Kafka."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT
    replacement: str = ""
    case: str = ""

    def applied(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        made = expanded(match, self.replacement)
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)


class PrincipalMapper:
    """The rules in order; the first one that matches the whole name determines the user name."""

    def __init__(self, rules: str = _DEFAULT) -> None:
        """Errors: PrincipalMappingError."""
        self._rules = _parsed(rules)

    def name_of(self, distinguished_name: str) -> str:
        """The user name. Errors: NoRuleError, also for a rule that applies and gives an empty name."""
        for rule in self._rules:
            name = rule.applied(distinguished_name)
            if name:
                return name
            if name is not None:
                raise NoRuleError(f"ssl.principal.mapping.rules map {distinguished_name[:200]!r} to no name")
        raise NoRuleError(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name[:200]!r}")


def _parsed(text: str) -> tuple[_Rule, ...]:
    rules: list[_Rule] = []
    at = 0
    text = text.strip() or _DEFAULT
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise PrincipalMappingError(
                f"ssl.principal.mapping.rules is not valid at {text[at : at + 100]!r}"
            )
        at = found.end()
        rules.append(_rule(found))
    return tuple(rules)


def _rule(found: re.Match[str]) -> _Rule:
    if found["default"]:
        return _Rule(None)
    try:
        return _Rule(re.compile(found["pattern"]), found["replacement"], found["case"])
    except re.error as error:
        raise PrincipalMappingError(f"the pattern {found['pattern'][:100]!r} is not valid: {error}") from None
