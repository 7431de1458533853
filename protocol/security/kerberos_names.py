"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to a user name. Pure.

A rule is DEFAULT, which takes the first component of a principal of the default realm, or
`RULE:[n:format](regexp)s/pattern/replacement/g/L`, which applies to principals with n components: `format`
has `$0` for the realm and `$1` to `$n` for the components, and its result has to match `regexp` as a whole.
Source: Kafka KerberosName.java, KerberosShortNamer.java, KerberosRule.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .java_patterns import expanded
from .principal_mapping import NoRuleError, PrincipalMappingError

if TYPE_CHECKING:
    from collections.abc import Sequence

RULES_KEY = "sasl.kerberos.principal.to.local.rules"
DEFAULT = "DEFAULT"
_NAME = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$([0-9]*)")
_NOT_SIMPLE = re.compile("[/@]")


class KerberosName(NamedTuple):
    """A principal: `service/host@REALM` or `user@REALM`."""

    first: str
    second: str | None
    realm: str | None


class _Rule(NamedTuple):
    """`components`: None for DEFAULT."""

    text: str
    components: int | None = None
    format: str = ""
    match: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    replaces_all: bool = False
    case: str = ""

    def applied(self, parameters: Sequence[str], default_realm: str) -> str | None:
        """The user name, None if the rule does not apply. Errors: NoRuleError."""
        if self.components is None:
            made = parameters[1] if parameters[0] == default_realm else None
        elif self.components == len(parameters) - 1:
            made = self._made(parameters)
        else:
            return None
        if made is None:
            return None
        if not made:
            raise NoRuleError(f"the rule {self.text} of {RULES_KEY} gives an empty user name")
        if _NOT_SIMPLE.search(made):
            raise NoRuleError(f"the rule {self.text} of {RULES_KEY} gives {made[:200]!r}, which has / or @")
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)

    def _made(self, parameters: Sequence[str]) -> str | None:
        base = _PARAMETER.sub(lambda found: parameters[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        count = 0 if self.replaces_all else 1
        return self.pattern.sub(lambda match: expanded(match, self.replacement), base, count=count)


class PrincipalToLocal:
    """The rules in order; the first one that applies determines the name."""

    def __init__(self, rules: Sequence[str] = (DEFAULT,), default_realm: str = "") -> None:
        """Errors: PrincipalMappingError."""
        self._rules = tuple(_rule(text) for text in rules)
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        """The user name of a principal. Errors: NoRuleError."""
        name = parse_kerberos_name(principal)
        if name.realm is None:
            return name.first
        components = (name.first,) if name.second is None else (name.first, name.second)
        for rule in self._rules:
            user_name = rule.applied((name.realm, *components), self._default_realm)
            if user_name is not None:
                return user_name
        realm = f"the default realm is {self._default_realm or 'not set'}"
        raise NoRuleError(f"no rule of {RULES_KEY} applies to {principal[:200]!r} ({realm})")


def parse_kerberos_name(principal: str) -> KerberosName:
    """Errors: NoRuleError for more than two components, and for an escaped / or @."""
    found = _NAME.fullmatch(principal)
    if found is not None:
        return KerberosName(found["first"], found["second"], found["realm"])
    if "@" in principal:
        raise NoRuleError(f"{principal[:200]!r} is not a name of one or two components and a realm")
    return KerberosName(principal, None, None)


def _rule(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise PrincipalMappingError(
            f"{RULES_KEY} has the rule {text[:100]!r}, which is neither DEFAULT nor"
            " RULE:[n:string](regexp)s/pattern/replacement/g/L"
        )
    if found["default"]:
        return _Rule(text)
    count = int(found["count"])
    for number in _PARAMETER.findall(found["format"]):
        if not number or int(number) > count:
            raise PrincipalMappingError(
                f"{RULES_KEY} has the rule {text[:100]!r} with ${number}; there are $0 to ${count}"
            )
    return _Rule(
        text,
        count,
        found["format"],
        _compiled(found["match"]),
        _compiled(found["pattern"]),
        found["replacement"] or "",
        found["all"] is not None,
        found["case"] or "",
    )


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise PrincipalMappingError(
            f"{RULES_KEY} has the pattern {pattern[:100]!r}, which is not valid: {error}"  # type: ignore[index]
        ) from None
