"""Names of processors and stores: the user's, or generated ones, numbered as in Java.

A number is used up for most named operators as well, so that naming one does not rename the others.
Source: NamedInternal, InternalStreamsBuilder.newProcessorName.
"""

from __future__ import annotations

import re

from ..topology.errors import TopologyError

_MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def checked(name: str) -> str:
    """A legal name of a node or store: it may become part of the name of a topic. Errors: TopologyError."""
    if not name:
        raise TopologyError("a name must not be empty")
    if name in (".", ".."):
        raise TopologyError(f"{name!r} is not allowed as a name")
    if len(name) > _MAX_LENGTH:
        raise TopologyError(f"name {name} has more than {_MAX_LENGTH} characters")
    if not _LEGAL.fullmatch(name):
        raise TopologyError(
            f"name {name!r} has other characters than ASCII letters, digits, '.', '_' and '-'"
        )
    return name


class Names:
    """The counter of one topology."""

    def __init__(self) -> None:
        self._next = 0

    def generated(self, prefix: str) -> str:
        """`prefix` and the next number in ten digits."""
        number = self._next
        self._next += 1
        return f"{prefix}{number:010d}"

    def store(self, prefix: str) -> str:
        """A generated name of a store."""
        return self.generated(f"{prefix}STATE-STORE-")

    def given_or(self, name: str | None, prefix: str) -> str:
        """`name`, or a generated one. A number is used up in both cases."""
        generated = self.generated(prefix)
        return generated if name is None else checked(name)

    def suffixed_or(self, name: str | None, suffix: str, prefix: str) -> str:
        """`name` with `suffix`, or a generated one. A number is used up in both cases."""
        generated = self.generated(prefix)
        return generated if name is None else checked(name + suffix)
