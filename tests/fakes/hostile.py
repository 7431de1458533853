"""Invalid requests: a valid request with every mutation of one field or one byte."""

import random
from collections.abc import Iterator
from typing import Any

import msgpack
import msgspec

_DEEP = "\0deep\0"  # placeholder for bytes that no encoder writes
DEEP_BYTES = b"\x91" * 3_000 + b"\xc0"

HOSTILE_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    -5,
    -(2**63),
    2**31 - 1,
    2**63 - 1,
    2**64 - 1,
    1.5,
    float("nan"),
    "",
    "..",
    "a/../../etc",
    "nul\0in\nside",
    "x" * 300,
    "y" * 70_000,
    b"",
    b"\0" * 15,
    b"\xff" * 17,
    [],
    [[]],
    [0] * 5_000,
    [[b"\0" * 16, 0]] * 3_000,
    {},
    {"a": "b"},
    {1: [2, {3: 4}]},
    msgpack.ExtType(5, b"pickle?"),
    msgpack.Timestamp(0, 999),
    _DEEP,
)
RAW = (
    b"",
    b"\xc1",  # never used by MessagePack
    b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix",  # a pickle
    b"\xdd\xff\xff\xff\xff",  # an array of 2^32 - 1
    b"\xdf\xff\xff\xff\xff",
    b"\x93\xdd\x7f\xff\xff\xff\x01\x02",
    b"\xdb\xff\xff\xff\xffabc",
    b"\xc6\x7f\xff\xff\xff",
    DEEP_BYTES,
    b"\x81" * 2_000,
)


def mutations(
    request: msgspec.Struct, seed: int = 0, values: tuple[Any, ...] = HOSTILE_VALUES
) -> Iterator[bytes]:
    """Encoded bodies with one mutation each, in a fixed order."""
    valid = msgspec.msgpack.encode(request)
    tree = msgpack.unpackb(valid, strict_map_key=False)
    for path in _paths(tree):
        for value in values:
            yield packed(_replaced(tree, path, value))
        yield packed(_shortened(tree, path))
    yield from RAW
    for end in range(0, len(valid), max(len(valid) // 40, 1)):
        yield valid[:end]
    yield valid + b"garbage"
    chance = random.Random(seed)
    for _ in range(60):
        rotten = bytearray(valid)
        rotten[chance.randrange(len(rotten))] ^= 1 << chance.randrange(8)
        yield bytes(rotten)


def _paths(tree: Any, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield before
    if isinstance(tree, list):
        for index, inner in enumerate(tree):
            yield from _paths(inner, (*before, index))


def _replaced(tree: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    copy = list(tree)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], value)
    return copy


def _shortened(tree: Any, path: tuple[int, ...]) -> Any:
    """The body without the element at `path` and those after it."""
    if not path:
        return []
    copy = list(tree)
    if len(path) == 1:
        return copy[: path[0]]
    copy[path[0]] = _shortened(copy[path[0]], path[1:])
    return copy


def packed(tree: Any) -> bytes:
    """Encode as MessagePack, with bytes that no encoder writes."""
    raw: bytes = msgpack.packb(tree)
    return raw.replace(msgpack.packb(_DEEP), DEEP_BYTES)


_SET, _APPEND = 0, 2
_TOPIC, _NODE, _DEFAULT_NODE = (2, "good"), (4, "1"), (4, "")
# Resource type and name; config key, operation and value. All are refused.
BAD_CONFIGS: tuple[tuple[tuple[int, str], tuple[str, int, str]], ...] = (
    (_TOPIC, ("no.such", _SET, "1")),
    (_TOPIC, ("segment\nms", _SET, "1")),
    (_TOPIC, ("segment.ms", _SET, "1\n2")),
    (_TOPIC, ("segment.ms", _SET, "9" * 30_000)),
    (_TOPIC, ("segment.ms", 77, "1")),
    (_TOPIC, ("segment.ms", _APPEND, "1")),
    (_TOPIC, ("cleanup.policy", _APPEND, "compact\0")),
    (_TOPIC, ("x" * 30_000, _SET, "1")),
    (_NODE, ("node.id", _SET, "7")),
    (_NODE, ("log.dirs", _SET, "/etc")),
    (_NODE, ("min.insync.replicas", _SET, "7")),
    (_DEFAULT_NODE, ("broker.session.timeout.ms", _SET, "1")),
    (_DEFAULT_NODE, ("max.connections", _SET, "0")),
    ((4, "../1"), ("background.threads", _SET, "1")),
    ((8, ""), ("background.threads", _SET, "1")),
)
# Requests that no Kafka client can encode.
LARGE_CONFIGS: tuple[tuple[tuple[int, str], tuple[str, int, str]], ...] = (
    (_TOPIC, ("segment.ms", _SET, "9" * 100_000)),
    (_TOPIC, ("leader.replication.throttled.replicas", _SET, "0:1," * 100_000)),
    (_TOPIC, ("x" * 1_000_000, _SET, "1")),
    ((2**31, "good"), ("segment.ms", _SET, "1")),
)
