"""Masks secrets in text: by the names of keys, by the forms of credentials, and by known values. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ...clients.config import ClientConfigs
from ...controller.config import ControllerConfig
from ...runtime.config import FAMILY
from ...storage_node.configs.node_config import NodeConfig

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MASK, KEY_MASK = "<masked>", "<masked-private-key>"
_MASKED = ("<masked",)
# Shorter values are ordinary words; replacing them would make the bundle unreadable.
MIN_KNOWN = 6
_DECLARED = {
    name: declaration
    for kind in (NodeConfig, ControllerConfig, *ClientConfigs)
    for name, declaration in kind.keys().items()
    if not name.endswith(FAMILY)
}
_SENSITIVE = "|".join(
    re.escape(name).replace(r"\.", "[._-]") for name, each in _DECLARED.items() if each.is_sensitive
)
_WORDS = (
    r"passw(?:or)?d|passwd|passphrase|secret|token|credential|private[._-]?key|jaas|api[._-]?key|hmac"
    r"|access[._-]?key|key[._-]?pass|salted|stored[._-]?key|server[._-]?key|authorization"
    rf"|cookie|bearer|assertion|{_SENSITIVE}"
)
_NAME = re.compile(_WORDS, re.IGNORECASE)
# Names of modes, files, times and mechanisms; a text below them is masked by its form only.
_PLAIN_NAME = re.compile(r"(?i)(?:mode|file|path|location|type|id|ms|mechanisms?|class|name|issuer|s)$")
_VALUE = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&}\])\"']+"
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY-----")
_JAAS_LINE = re.compile(r"(?im)^(\s*[\w.\-]*jaas[\w.\-]*\s*[=:]\s*)(.+(?:\\\n.*)*)$")
_JAAS_MODULE = re.compile(r"(?i)(\w*LoginModule\s+(?:required|requisite|sufficient|optional)\b)[^;]*")
_PAIR = re.compile(
    rf"(?i)(?P<quote>[\"']?)(?P<name>[\w.\-/]*(?:{_WORDS})[\w.\-]*)(?P=quote)(?P<mid>\s*(?:[=:]|=>)\s*)"
    rf"(?P<value>(?:(?:Basic|Bearer|Negotiate)\s+)?(?:{_VALUE}))"
)
# A name and its value as two entries, such as of a record of the metadata log.
_ENTRY = re.compile(
    rf"(?i)(?P<start>\b(?:name|key)[\"']?\s*[:=]\s*[\"']?)(?P<name>[\w.\-]*(?:{_WORDS})[\w.\-]*)"
    rf"(?P<mid>[\"']?[^{{}}\n]{{0,200}}?\bvalue[\"']?\s*[:=]\s*)(?P<value>{_VALUE})"
)
_OPTION = re.compile(rf"(?i)(--?[\w\-]*(?:{_WORDS})[\w\-]*[\s,'\"]+)(?!-)({_VALUE})")
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@\"']+@")
_SCHEME = re.compile(r"(?i)\b((?:Basic|Bearer|Negotiate)\s+)[A-Za-z0-9+/_.=\-]{8,}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+\.?[A-Za-z0-9_\-]*")
_CLOUD_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
# Values that are no secret: numbers of intervals, switches, modes.
_HARMLESS = re.compile(r"(?i)\"?(?:true|false|null|none|-?\d{1,20}(?:\.\d+)?|disabled|token|)\"?\Z")
_ALWAYS = re.compile(r"(?i)passw(?:or)?d|passwd|passphrase|secret|credential|jaas")


class Masker:
    """Masks text; `known` are secret values that were read from files and configs."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {value for value in known if len(value) >= MIN_KNOWN}
        ordered = sorted(values, key=len, reverse=True)  # a secret may contain another
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def mask(self, text: str) -> str:
        """The text without secrets."""
        return self.mask_known(_masked_forms(text))

    def mask_value(self, value: Any) -> Any:
        """A JSON-able value without secrets: by the names of its keys, and in all of its texts."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            secret_names = {str(name) for name in value if is_secret_name(str(name))}
            if is_secret_name(str(value.get("name", ""))):
                secret_names.add("value")
            return {
                self.mask_known(str(name)): MASK
                if name in secret_names and isinstance(each, str) and each
                else self.mask_value(each)
                for name, each in value.items()
            }
        return [self.mask_value(each) for each in value] if isinstance(value, (list, tuple)) else value

    def mask_known(self, text: str) -> str:
        """The text without known values; texts in other forms are left."""
        return text if self._known is None else self._known.sub(MASK, text)


def is_secret_name(name: str) -> bool:
    """Whether a key of this name has a secret."""
    return bool(_NAME.search(name)) and _is_secret(name) and not _PLAIN_NAME.search(name)


def _masked_forms(text: str) -> str:
    text = _without_cut_key(_PEM.sub(KEY_MASK, text))
    for pattern, by in _FORMS:
        text = pattern.sub(by, text)
    return text


def _without_cut_key(text: str) -> str:
    """A text, such as the end of a log, may begin inside a key; whole keys are masked already."""
    ends = [match.end() for match in _PEM_END.finditer(text)]
    return KEY_MASK + text[ends[-1] :] if ends else text


def secrets_of(text: str) -> set[str]:
    """The values of `key=value` and `key: value` lines whose key is that of a secret, and of lines that are a
    secret as a whole (a file of one word)."""
    found = {match["value"].strip("\"'") for match in _PAIR.finditer(text) if _is_secret(match["name"])}
    lines = text.split()
    if len(lines) == 1:
        found.add(lines[0])
    return {value for value in found if len(value) >= MIN_KNOWN and not _HARMLESS.match(value)}


@cache
def _safe_names() -> frozenset[str]:
    """Declared config keys whose values are not sensitive, such as delegation.token.max.lifetime.ms."""
    return frozenset(name for name, declaration in _DECLARED.items() if not declaration.is_sensitive)


def _is_secret(name: str) -> bool:
    return name.lower() not in _safe_names()


def _masked_pair(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    # the contents of a structure have names of their own
    is_harmless = value in ("{", "[") or (_HARMLESS.match(value) and not _ALWAYS.search(name))
    if is_harmless or not _is_secret(name) or value.strip("\"'").startswith(_MASKED):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['quote']}{name}{match['quote']}{match['mid']}{quote}{MASK}{quote}"


def _masked_entry(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    if not is_secret_name(name) or value.strip("\"'").startswith(_MASKED):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['start']}{name}{match['mid']}{quote}{MASK}{quote}"


def _masked_option(match: re.Match[str]) -> str:
    value = match[2]
    return match[0] if value.strip("\"'").startswith(_MASKED) else match[1] + MASK


# Order: the largest forms first; private keys before all of them.
_FORMS = (
    (_JAAS_LINE, rf"\1{MASK}"),
    (_JAAS_MODULE, rf"\1 {MASK}"),
    (_URL, rf"\1{MASK}@"),
    (_PAIR, _masked_pair),
    (_ENTRY, _masked_entry),
    (_OPTION, _masked_option),
    (_SCHEME, rf"\1{MASK}"),
    (_JWT, MASK),
    (_CLOUD_KEY, MASK),
)
