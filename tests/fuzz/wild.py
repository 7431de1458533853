"""Hostile input by dice: requests of every api and version, record batches, and bytes that were damaged.

Everything is a function of a random.Random: the same seed makes the same bytes.
"""

import dataclasses
import random
import struct
import uuid
from typing import Any, get_args

import batch_bytes as by_hand
import msgspec
from headrace.protocol.messages import registry
from headrace.protocol.messages.envelope import Api
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import Compression
from headrace.services.kafka_listener.entities import MS
from headrace.services.kafka_listener.served import SERVED
from headrace.services.kafka_listener.skimming import kind_of
from hostile import HOSTILE_VALUES, packed
from kafka_wire import request_head, written
from kio.index import load_request_schema

TOPIC = "fuzz"
# The APIs that both listeners serve; all others are between servers.
OWN_APIS = [
    api
    for api in vars(registry).values()
    if isinstance(api, Api) and api.key in SERVED and api is not registry.API_VERSIONS
]
VERSIONS = [(api.key, version) for api in SERVED.values() for version in range(api.low, api.high + 1)]
# Requests never have ids of real servers: removing those would succeed.
UNKNOWN_NODE = 4_711
WALL_MS = 1_700_000_000_000

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
# What a request is about, so that it gets far; by the names that Kafka's schemas have for it.
_SENSIBLE: dict[str, Any] = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_names": TOPIC,
    "resource_name": TOPIC,
    "resource_type": 2,
    "partition": 0,
    "index": 0,
    "partition_index": 0,
    "partition_indexes": 0,
    "partition_id": 0,
    "partitions": 0,
    "acks": 1,
    "fetch_offset": 0,
    "offset": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 1,
    "replica_id": -1,
    "leader_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "session_id": 0,
    "session_epoch": -1,
    "max_wait": 5 * MS,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "timestamp": -1,
    "timeout": 50 * MS,
    "group_id": "g",
    "group": "g",
    "groups_names": "g",
    "key": "request_percentage",  # a quota that delays no client for long, should it apply to all
    "entity_type": "user",
    "entity_name": TOPIC,
    "feature": "group.version",
    "max_version_level": 1,
    "upgrade_type": 1,
    "coordinator_keys": "g",
    "key_type": 0,
    "member_id": "",
    "member_epoch": 0,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "group_instance_id": None,
    "session_timeout": 100 * MS,
    "rebalance_timeout": 100 * MS,
    "protocol_type": "consumer",
    "transactional_id": "x",
    "v3_and_below_transactional_id": "x",
    "transaction_timeout": 60_000 * MS,
    "producer_id": 1,
    "producer_epoch": 0,
    "isolation_level": 0,
    "voter_id": UNKNOWN_NODE,
    "broker_id": UNKNOWN_NODE,
    "broker_ids": 1,
    "client_software_name": "x",
    "client_software_version": "1",
    "configuration_keys": "segment.ms",
    "config_operation": 0,
    "validate_only": True,
    "allow_auto_topic_creation": False,
    "response_partition_limit": 10,
}
_TEXTS = (
    "",
    ".",
    "..",
    "../../etc",
    "a/b",
    "nul\0in",
    "new\nline",
    "\u202egpj",
    "x" * 250,
    "y" * 32_000,
    "{}",
)
_BYTES = (b"", b"\0" * 15, b"\xff" * 17, b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix", b"\0" * 70_000)
_EDGES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 11,
    b"\0" * 8,
)


# --- requests ------------------------------------------------------------------------------------------


def request(dice: random.Random, topic_id: bytes) -> bytes:
    """A frame without its length: a request that is nearly right, and then damaged as often as not."""
    return bad_request(dice, topic_id, dice.choice(VERSIONS))


def bad_request(dice: random.Random, topic_id: bytes, which: tuple[int, int]) -> bytes:
    """The same of one api and version."""
    kind = dice.random()
    if kind < 0.1:
        return _head(dice, which) + dice.randbytes(dice.choice((0, 1, 8, 60, 400)))
    frame = good_request(dice, topic_id, which, dice.choice((0.0, 0.05, 0.3)))
    if kind < 0.5:
        return frame
    # its key and version stay: that nothing else is served is a matter of a few cases, not of luck
    return frame[:4] + damaged(dice, frame[4:])


def good_request(dice: random.Random, topic_id: bytes, which: tuple[int, int], chance: float = 0.0) -> bytes:
    """One that can be read, and makes sense but for this share of its fields."""
    return _head(dice, which) + written(entity(load_request_schema(*which), dice, chance, topic_id))


def _head(dice: random.Random, which: tuple[int, int]) -> bytes:
    return request_head(*which, dice.getrandbits(31), dice.choice(("c", "", "new\nline")))


def entity(schema: Any, dice: random.Random, chance: float, topic_id: bytes) -> Any:
    """One of kio's; each field is hostile by this chance, else it has a value that makes sense."""
    return schema(
        **{field.name: _field(field, dice, chance, topic_id) for field in dataclasses.fields(schema)}
    )


def _field(field: Any, dice: random.Random, chance: float, topic_id: bytes) -> Any:
    kind, is_array = kind_of(field.type)
    is_hostile = dice.random() < chance
    if is_hostile and type(None) in get_args(field.type) and dice.random() < 0.4:
        return None

    def one() -> Any:
        if dataclasses.is_dataclass(kind):
            return entity(kind, dice, chance, topic_id)
        return _value(field, dice, topic_id, is_hostile=is_hostile)

    if not is_array:
        return one()
    # Bound: arrays of arrays of large texts multiply.
    is_small = field.metadata.get("kafka_type", "string") not in ("string", "bytes", "records")
    count = dice.choice((0, 2, 3, 300 if is_small else 2)) if is_hostile else 1
    return tuple(one() for _ in range(count))


def _value(field: Any, dice: random.Random, topic_id: bytes, *, is_hostile: bool) -> Any:
    kafka_type = field.metadata["kafka_type"]
    if not is_hostile and field.name in _SENSIBLE:
        sensible = _SENSIBLE[field.name]
        if sensible is not None or type(None) in get_args(field.type):
            return _shaped(kafka_type, sensible)
    if kafka_type == "string":
        return dice.choice(_TEXTS) if is_hostile else "text"
    if kafka_type in ("bytes", "records"):
        return dice.choice(_BYTES) if is_hostile else batch(dice)
    if kafka_type == "bool":
        return dice.random() < 0.5
    if kafka_type == "uuid":
        return id_of(dice.randbytes(16) if is_hostile else topic_id)
    if kafka_type == "float64":
        return dice.choice((0.0, -1.0, float("inf"), float("nan"))) if is_hostile else 1.0
    if kafka_type.startswith("timedelta"):
        bits = 31 if kafka_type.endswith("32") else 45
        return dice.choice((0, -1, 1, 2**bits - 1, -(2**bits))) * MS if is_hostile else 9 * MS
    return _number(kafka_type, dice) if is_hostile else 3


def _shaped(kafka_type: str, sensible: Any) -> Any:
    """The same name is a number here and a text there."""
    if kafka_type == "string":
        return sensible if sensible is None or isinstance(sensible, str) else "text"
    if kafka_type.startswith("timedelta"):
        return sensible if not isinstance(sensible, int | str) else 9 * MS
    if kafka_type == "bool":
        return bool(sensible)
    if kafka_type in ("bytes", "records"):
        return b"bytes"
    return sensible if isinstance(sensible, int) else 3


def _number(kafka_type: str, dice: random.Random) -> int:
    if kafka_type in _UNSIGNED:
        return dice.choice((0, 2 ** _UNSIGNED[kafka_type] - 1, dice.getrandbits(_UNSIGNED[kafka_type])))
    bits = _BITS[kafka_type]
    top = 2 ** (bits - 1)
    return dice.choice((0, -1, -2, -5, top - 1, -top, dice.randrange(-top, top)))


def id_of(topic_id: bytes) -> uuid.UUID:
    """As kio has it."""
    return uuid.UUID(bytes=topic_id)


# --- requests of the ZeroMQ plane ----------------------------------------------------------------------


def own_request(dice: random.Random, topic_id: bytes) -> tuple[Api, bytes]:
    """An api that clients have, and a body for it."""
    api = dice.choice(OWN_APIS)
    chance = dice.choice((0.0, 0.05, 0.3))
    body = packed(_struct(api.request, dice, chance, topic_id))
    return api, body if dice.random() < 0.4 else damaged(dice, body)


def _struct(kind: type[Any], dice: random.Random, chance: float, topic_id: bytes) -> list[Any]:
    """Its fields as they travel."""
    return [
        _own_value(each.name, each.type, dice, chance, topic_id)
        for each in msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
    ]


def _own_value(name: str, kind: Any, dice: random.Random, chance: float, topic_id: bytes) -> Any:
    if dice.random() < chance:
        return dice.choice(HOSTILE_VALUES)
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
    match kind:
        case msgspec.inspect.StructType():
            return _struct(kind.cls, dice, chance, topic_id)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            return [
                _own_value(name, kind.item_type, dice, chance, topic_id)
                for _ in range(dice.choice((0, 1, 1, 2)))
            ]
        case msgspec.inspect.TupleType():
            return [_own_value(name, each, dice, chance, topic_id) for each in kind.item_types]
        case msgspec.inspect.DictType():
            return {"segment.ms": "1000"}
        case msgspec.inspect.BytesType():
            return topic_id
        case msgspec.inspect.StrType():
            return dice.choice((TOPIC, "g", ""))
        case msgspec.inspect.BoolType():
            return dice.random() < 0.5
        case msgspec.inspect.FloatType():
            return 0.5
    return (
        UNKNOWN_NODE if name.endswith(("node_id", "broker_id", "voter_id")) else dice.choice((0, 1, -1, 50))
    )


# --- bytes ---------------------------------------------------------------------------------------------


def damaged(dice: random.Random, data: bytes) -> bytes:
    """Bits turned, pieces cut out, doubled, put in; one to four times."""
    bent = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        if not bent:
            break
        at = dice.randrange(len(bent))
        size = dice.choice((1, 1, 2, 4, 8, 40))
        match dice.randrange(6):
            case 0:
                bent[at] ^= 1 << dice.randrange(8)
            case 1:
                bent[at : at + size] = dice.choice(_EDGES)
            case 2:
                del bent[at : at + size]
            case 3:
                bent[at:at] = bent[at : at + size]
            case 4:
                del bent[at:]
            case _:
                bent[at:at] = dice.randbytes(size)
    return bytes(bent)


def stream(dice: random.Random, frames: list[bytes]) -> list[bytes]:
    """Frames as they might be sent, in pieces: lengths that lie, ends that are missing, byte by byte."""
    parts = []
    for frame in frames:
        length = len(frame)
        if dice.random() < 0.3:
            length = dice.choice((0, -1, 1, 9, length - 1, length + 1, 2**31 - 1, -(2**31), 0x16030100))
        parts.append(struct.pack(">i", length) + frame)
    data = b"".join(parts)
    if dice.random() < 0.2:
        data = damaged(dice, data)
    if dice.random() < 0.3:
        data = data[: dice.randrange(len(data) + 1)]
    size = dice.choice((1, 3, 50, 5_000, 1 << 20))
    size = max(size, len(data) // 200)
    return [data[start : start + size] for start in range(0, len(data), size)]


# --- record batches ------------------------------------------------------------------------------------


def batch(dice: random.Random) -> bytes:
    """One that is right."""
    builder = active_codec().builder(max_bytes=1 << 20, compression=dice.choice(list(Compression)))
    for _ in range(dice.choice((1, 1, 2, 20))):
        key = dice.choice((None, b"", b"key"))
        builder.append(WALL_MS + dice.randrange(99), key, dice.choice((None, b"", b"value" * 40)))
    return builder.build()


def bad_batch(dice: random.Random) -> bytes:
    """One that is likely wrong: damaged anywhere, or only behind a checksum that was made right again."""
    good = batch(dice)
    match dice.randrange(4):
        case 0:
            return damaged(dice, good)
        case 1:
            bent = damaged(dice, good)
            return by_hand.sealed(bent) if len(bent) > 21 else bent
        case 2:
            return by_hand.sealed(good[:61] + damaged(dice, good[61:] or b"\0"))
        case _:
            return by_hand.batch(
                b"".join(by_hand.record(delta) for delta in range(dice.choice((0, 1, 3)))),
                dice.choice((-1, 0, 1, 2, 3, 2**31 - 1)),
                last_delta=dice.choice((0, 1, 2, -1, 2**31 - 1)),
                attributes=dice.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 48, 64, 0x7FFF)),
                magic=dice.choice((2, 2, 2, 0, 1, 3, -1)),
                base_timestamp=dice.choice((WALL_MS, -1, -2, 2**63 - 1, -(2**63))),
                max_timestamp=dice.choice((WALL_MS, -1, 0, 2**63 - 1)),
                producer=dice.choice(((-1, -1, -1), (7, -1, -1), (7, 0, 0), (2**63 - 1, 32_767, 2**31 - 1))),
            )


__all__ = ["TOPIC", "VERSIONS", "bad_batch", "bad_request", "batch", "damaged", "good_request", "stream"]
