"""Serdes that are made of others, some of which are known only when the application starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.serdes import Serde, SerdeContext


@dataclass(frozen=True, slots=True)
class DerivedSerde:
    """A serde that `make` builds from the resolved `parts`: pairs of a field, "key" or "value", whose default
    is used where the serde is None, and a serde."""

    make: Callable[..., Serde[Any]]
    parts: tuple[tuple[str, Any], ...]


class CombinedKeySerdes(NamedTuple):
    """Serdes of the keys of a join by foreign key; None: the default for keys."""

    foreign: Any
    primary: Any


def resolve(serde: Any, field: str, *, key: Any, value: Any) -> Any:
    """The serde to use for a field, "key" or "value". `key` and `value`: the defaults of the application."""
    if isinstance(serde, DerivedSerde):
        return serde.make(*(resolve(part, each, key=key, value=value) for each, part in serde.parts))
    if serde is None:
        return key if field == "key" else value
    return serde


@dataclass(frozen=True, slots=True)
class WindowedKeySerde(DerivedSerde):
    """The serde of windowed keys over that of their keys, `inner`. With one it serves clients, too."""

    @property
    def inner(self) -> Any:
        """The serde of the key alone."""
        return self.parts[0][1]

    def serialize(self, value: Any, _context: SerdeContext) -> bytes:
        """The bytes of a windowed key. Errors: TypeError without `inner`."""
        return self._serde().dumps(value)

    def deserialize(self, data: bytes, _context: SerdeContext) -> Any:
        """The windowed key. Errors: TypeError without `inner`."""
        return self._serde().loads(data)

    def _serde(self) -> Serde[Any]:
        if self.inner is None:
            raise TypeError(
                "a client needs the serde of the keys: session_windowed(utf8), not session_windowed()"
            )
        return self.make(self.inner)
