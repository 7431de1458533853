"""The subject of an X.509 certificate as Java prints it, which ACLs and mapping rules name. Pure.

OpenSSL has verified the certificate, so that it is well-formed DER; other bytes are a ValueError.
Source: RFC 2253; JDK AVA.java toRFC2253String; X.690.
"""

from __future__ import annotations

from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXT_TAGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED = ',=+<>#;"\\'
_VERSION, _SEQUENCE, _SET, _OID = 0xA0, 0x30, 0x31, 0x06


class _Element(NamedTuple):
    tag: int
    content: bytes
    raw: bytes  # with tag and length


def subject_name(certificate: bytes) -> str:
    """The subject of a DER certificate, in RFC 2253's order: `CN=alice,OU=data,O=example`. Errors:
    ValueError."""
    (outer,) = _elements(certificate)
    fields = _elements(_elements(outer.content)[0].content)
    # [version], serial number, signature, issuer, validity, subject
    subject = fields[5 if fields[0].tag == _VERSION else 4]
    parts = [_relative_name(each) for each in _elements(subject.content) if each.tag == _SET]
    return ",".join(reversed(parts))


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(each) for each in _elements(element.content) if each.tag == _SEQUENCE)


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    oid = _oid(kind.content)
    keyword, encoding = _KEYWORDS.get(oid), _TEXT_TAGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.raw.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding))}"


def _escaped(text: str) -> str:
    made = "".join(f"\\{char}" if char in _ESCAPED else char for char in text)
    stripped = made.strip(" ")
    before = len(made) - len(made.lstrip(" "))
    behind = len(made) - len(made.rstrip(" ")) if stripped else 0
    return "\\ " * before + stripped + "\\ " * behind


def _oid(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(number) for number in (first, numbers[0] - 40 * first, *numbers[1:]))


def _elements(data: bytes) -> list[_Element]:
    found: list[_Element] = []
    at = 0
    while at < len(data):
        start = at
        if len(data) - at < 2:
            raise ValueError("the certificate ends within an element")
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if at + length > len(data):
            raise ValueError("the certificate ends within an element")
        found.append(_Element(tag, data[at : at + length], data[start : at + length]))
        at += length
    return found
