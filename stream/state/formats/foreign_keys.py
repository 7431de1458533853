"""Messages and keys of joins of tables by foreign key.

Source: SubscriptionWrapperSerde, SubscriptionResponseWrapperSerde, CombinedKeySchema; KIP-213, KIP-775.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from ....clients.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")

_INT = Struct(">i")
_NO_HASH = 0x80
SUBSCRIPTION_VERSION = 1
RESPONSE_VERSION = 0


class Instruction(IntEnum):
    """What the right side does with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


class SubscriptionWrapper(NamedTuple, Generic[K]):
    """A subscription of a left record to a foreign key. `hash` (16 bytes) is that of the left value."""

    hash: bytes | None
    instruction: Instruction
    primary_key: K
    primary_partition: int | None = None
    version: int = SUBSCRIPTION_VERSION


class SubscriptionResponseWrapper(NamedTuple, Generic[V]):
    """The foreign value for a subscription, with the hash of the left value that subscribed."""

    original_value_hash: bytes | None
    foreign_value: V | None
    primary_partition: int | None = None
    version: int = RESPONSE_VERSION


class CombinedKey(NamedTuple):
    """A key of the subscription store."""

    foreign_key: Any
    primary_key: Any


def subscription_wrapper(serde: Serde[K], writes_v0: bool = False) -> Serde[SubscriptionWrapper[K]]:
    """Version, instruction, hash, primary key, partition (from version 1); bit 7 of the version: no hash.

    `serde` is that of the primary key; `writes_v0`: for an upgrade from before 3.4.
    """
    dumps, loads = serde.dumps, serde.loads

    def dump(wrapper: SubscriptionWrapper[K]) -> bytes:
        version = 0 if writes_v0 else wrapper.version
        head = (version if wrapper.hash is not None else version | _NO_HASH, wrapper.instruction)
        data = bytes(head) + (wrapper.hash or b"") + dumps(wrapper.primary_key)
        if version == 0:
            return data
        assert wrapper.primary_partition is not None
        return data + _INT.pack(wrapper.primary_partition)

    def load(data: bytes) -> SubscriptionWrapper[K]:
        version, has_hash = data[0] & 0x7F, data[0] < _NO_HASH
        if version > SUBSCRIPTION_VERSION:
            raise ValueError(f"unsupported version {version} of a foreign-key subscription")
        start = 18 if has_hash else 2
        end, partition = len(data), None
        if version > 0:
            end -= 4
            (partition,) = _INT.unpack_from(data, end)
        value_hash = data[2:18] if has_hash else None
        return SubscriptionWrapper(
            value_hash, Instruction(data[1]), loads(data[start:end]), partition, version
        )

    return Serde(f"subscription({serde.name})", dump, load)


def subscription_response_wrapper(serde: Serde[V]) -> Serde[SubscriptionResponseWrapper[V]]:
    """Version, hash, foreign value or nothing; bit 7 of the version: no hash."""
    dumps, loads = serde.dumps, serde.loads

    def dump(wrapper: SubscriptionResponseWrapper[V]) -> bytes:
        value_hash, value = wrapper.original_value_hash, wrapper.foreign_value
        version = wrapper.version if value_hash is not None else wrapper.version | _NO_HASH
        return bytes((version,)) + (value_hash or b"") + (b"" if value is None else dumps(value))

    def load(data: bytes) -> SubscriptionResponseWrapper[V]:
        version, has_hash = data[0] & 0x7F, data[0] < _NO_HASH
        if version > RESPONSE_VERSION:
            raise ValueError(f"unsupported version {version} of a response to a foreign-key subscription")
        start = 17 if has_hash else 1
        value = loads(data[start:]) if len(data) > start else None
        return SubscriptionResponseWrapper(data[1:17] if has_hash else None, value, None, version)

    return Serde(f"subscription_response({serde.name})", dump, load)


def combined_key(foreign: Serde[Any], primary: Serde[Any]) -> Serde[CombinedKey]:
    """Length of the foreign key (4 bytes), foreign key, primary key."""

    def dump(key: CombinedKey) -> bytes:
        return combined_key_prefix(foreign.dumps(key.foreign_key)) + primary.dumps(key.primary_key)

    def load(data: bytes) -> CombinedKey:
        end = 4 + _INT.unpack_from(data)[0]
        return CombinedKey(foreign.loads(data[4:end]), primary.loads(data[end:]))

    return Serde(f"combined_key({foreign.name}, {primary.name})", dump, load)


def combined_key_prefix(foreign_key: bytes) -> bytes:
    """What all combined keys of one serialized foreign key start with."""
    return _INT.pack(len(foreign_key)) + foreign_key
