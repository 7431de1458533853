"""The principals that rules name. Pure.

Source: Kafka KafkaPrincipal.java, SecurityUtils.java.
"""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"
WILDCARD_NAME = "*"


class Principal(NamedTuple):
    """The owner of a connection or of a rule, `User:alice` as text."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")  # of connections that are not authenticated
WILDCARD = Principal(USER_TYPE, WILDCARD_NAME)  # in a rule: every user


def user(name: str) -> Principal:
    """The principal of a user name."""
    return Principal(USER_TYPE, name)


def connection_principal(text: str) -> Principal:
    """The principal of a connection from its text. A connection may have a name that no rule can have."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def parse_principal(text: str) -> Principal:
    """The principal of a text like `User:alice`; the name may contain colons. Errors: ValueError."""
    kind, separator, name = text.partition(":")
    if not (kind and separator and name):
        raise ValueError(f"a principal is type:name, like User:alice, not {text!r}")
    return Principal(kind, name)
