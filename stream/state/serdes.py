"""Serdes of a store: the application's default where a store has none, with the topic of its changelog."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from ...clients import serdes
from ...clients.serdes import ContextSerde, Serde, SerdeContext
from ...protocol.errors import SerializationError
from ..topology.serdes import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from .stores import StoreContext

# Values of these types cannot change and equal what the serde reads from their bytes: a cache keeps them.
_KEPT: dict[str, frozenset[type]] = {
    serdes.int64.name: frozenset({int}),
    serdes.utf8.name: frozenset({str}),
    serdes.bytes_.name: frozenset({bytes}),
    serdes.json.name: frozenset({int, str, float}),
    serdes.msgpack.name: frozenset({int, str, float}),
}


def kept_types(serde: Serde[Any]) -> frozenset[type]:
    """The types of values that a cache may keep instead of reading their bytes again."""
    own = (serdes.int64, serdes.utf8, serdes.bytes_, serdes.json, serdes.msgpack)
    return _KEPT[serde.name] if any(serde is each for each in own) else frozenset()


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return _is_int64(value)
    if kind is float:
        return isfinite(value)
    return kind is str and str.isascii(value)


_ALWAYS_WRITTEN: dict[str, Callable[[Any], bool]] = {
    serdes.int64.name: _is_int64,
    serdes.utf8.name: lambda value: type(value) is str and value.isascii(),
    serdes.bytes_.name: lambda value: type(value) is bytes,
    serdes.json.name: _is_plain,
    serdes.msgpack.name: _is_plain,
}


def always_written(serde: Serde[Any]) -> Callable[[Any], bool] | None:
    """Whether a value of a kept type has bytes, without making them; None where that is not known."""
    return _ALWAYS_WRITTEN[serde.name] if kept_types(serde) else None


def bind_serde(serde: Any, field: str, store_name: str, context: StoreContext) -> Serde[Any]:
    """The serde of a store. `field`: "key" or "value". Errors: TypeError without one."""
    serde = resolve(serde, field, key=context.key_serde, value=context.value_serde)
    if isinstance(serde, Serde):
        return serde
    if not isinstance(serde, ContextSerde):
        raise TypeError(f"store {store_name!r} needs {field}= a serde, not {serde!r}")
    topic = context.changelog_for(store_name) or store_name

    def in_context() -> SerdeContext:
        record = context.record_context
        return SerdeContext(topic, field, () if record is None else record.headers)

    return Serde(
        type(serde).__name__,
        lambda value: serde.serialize(value, in_context()),
        lambda data: serde.deserialize(data, in_context()),
    )


def bad_value(store_name: str, field: str, value: Any, error: BaseException) -> SerializationError:
    """For a value that the serde of a store refuses; a serde of another type is the usual cause."""
    text = (
        f"store {store_name!r} cannot serialize the {field} of type {type(value).__name__}: "
        f"{type(error).__name__}: {error}"
    )
    return SerializationError(text, store_name, field)
