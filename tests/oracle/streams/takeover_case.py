"""An application with many kinds of state, and its input, for programs that take over from each other."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from .cases import Node

PHASE_MS = 6_000
RECORDS = 60
LATENESS = (0, 0, 0, 0, 150, 400, 2_500)
IN_TIME = (0,)


class Sent(NamedTuple):
    """A record of an input topic."""

    topic: str
    key: str
    value: str | None
    timestamp: int


def _source(op: str, name: str, **fields: Any) -> Node:
    topics: Node = {"topics": [name]} if op == "stream" else {"topic": name}
    return {"id": name, "op": op, **topics, "key": "string", "value": "string", **fields}


def _output(table: str, name: str, key: str, value: str) -> list[Node]:
    """A table to a topic."""
    stream = f"{name}-stream"
    return [{"id": stream, "op": "to_stream", "input": table}, _sink(stream, name, key, value)]


def _sink(stream: str, name: str, key: str, value: str) -> Node:
    return {"id": f"{name}-sink", "op": "to", "input": stream, "topic": name, "key": key, "value": value}


COUNTS: list[Node] = [
    _source("stream", "words"),
    {
        "id": "by-word",
        "op": "group_by",
        "input": "words",
        "key_f": "value_text",
        "key": "string",
        "value": "string",
    },
    {"id": "counts", "op": "count", "input": "by-word", "store": {"name": "counts"}},
    *_output("counts", "out-counts", "string", "long"),
]
WINDOWS: list[Node] = [
    _source("stream", "hits"),
    {"id": "by-key", "op": "group_by_key", "input": "hits"},
    {"id": "tumbling", "op": "window", "input": "by-key", "kind": "tumbling", "size": 1000, "grace": 500},
    {"id": "per-window", "op": "count", "input": "tumbling", "store": {"name": "per-window"}},
    {"id": "final", "op": "suppress", "input": "per-window"},
    *_output("final", "out-final", "time:string:1000", "long"),
    {
        "id": "hopping",
        "op": "window",
        "input": "by-key",
        "kind": "hopping",
        "size": 1000,
        "advance": 300,
        "grace": 200,
    },
    {"id": "closed", "op": "count", "input": "hopping", "on_close": True, "store": {"name": "closed"}},
    *_output("closed", "out-closed", "time:string:1000", "long"),
    {"id": "gap", "op": "window", "input": "by-key", "kind": "session", "size": 300, "grace": 1000},
    {
        "id": "sessions",
        "op": "aggregate",
        "input": "gap",
        "initial": "empty",
        "f": "concat",
        "merge_f": "concat",
        "store": {"name": "sessions"},
    },
    *_output("sessions", "out-sessions", "session:string", "string"),
]
JOINS: list[Node] = [
    _source("stream", "orders"),
    _source("stream", "payments"),
    {
        "id": "paid",
        "op": "left_join",
        "input": "orders",
        "other": "payments",
        "f": "pair",
        "before": 500,
        "after": 500,
        "grace": 200,
    },
    _sink("paid", "out-paid", "string", "string"),
    # without grace: the buffer of Java loses count of its records in a restart, and holds some back
    _source("table", "rates", store={"name": "rates", "supplier": "versioned", "history": 600_000}),
    {"id": "priced", "op": "join", "input": "orders", "other": "rates", "f": "pair", "name": "priced"},
    _sink("priced", "out-priced", "string", "string"),
    {
        "id": "counted",
        "op": "process",
        "input": "payments",
        "processor": "previous",
        "uses": {
            "name": "before",
            "kind": "timestamped",
            "supplier": "timestamped",
            "key": "string",
            "value": "string",
        },
    },
    _sink("counted", "out-counted", "string", "string"),
]
TABLES: list[Node] = [
    _source("table", "users", store={"name": "users"}),
    _source("table", "limits", store={"name": "limits"}),
    {
        "id": "profiles",
        "op": "outer_join",
        "input": "users",
        "other": "limits",
        "f": "pair",
        "store": {"name": "profiles", "key": "string", "value": "string"},
    },
    *_output("profiles", "out-profiles", "string", "string"),
    _source("table", "cities", store={"name": "cities"}),
    {
        "id": "homes",
        "op": "left_foreign_join",
        "input": "users",
        "other": "cities",
        "key_f": "first",
        "f": "pair",
        "store": {"name": "homes", "key": "string", "value": "string"},
    },
    *_output("homes", "out-homes", "string", "string"),
    {
        "id": "by-length",
        "op": "group_by",
        "input": "users",
        "key_f": "value_text",
        "value_f": "number",
        "key": "string",
        "value": "long",
    },
    {
        "id": "sums",
        "op": "aggregate",
        "input": "by-length",
        "initial": "zero",
        "f": "sum",
        "subtract_f": "minus",
        "store": {"name": "sums", "key": "string", "value": "long"},
    },
    *_output("sums", "out-sums", "string", "long"),
]
NODES = [*COUNTS, *WINDOWS, *JOINS, *TABLES]
INPUTS = ("words", "hits", "orders", "payments", "rates", "users", "limits", "cities")
OUTPUTS = tuple(node["topic"] for node in NODES if node["op"] == "to")
# Records of several tasks meet in a repartition or foreign-key topic, in any order
MIXED = ("out-counts", "out-homes", "out-sums")
KEYS = ("ann", "bob", "cem", "dee", "eva")
VALUES = ("ankara", "berlin", "cairo", "athens", "basel", "cork")
CITIES = ("a", "b", "c")
DELETED = {"users", "limits", "cities", "rates"}


def phase(number: int, start_ms: int, lateness: tuple[int, ...] = LATENESS) -> list[Sent]:
    """The records of one phase, a pure function of its number. Records of all topics have different times.

    Of each topic the first record of each key is the earliest of its phase: Java forgets the stream time of
    stores in a restart, and then accepts late records. Later ones are late by one of `lateness`.
    """
    rng = random.Random(number)
    base = start_ms + number * PHASE_MS
    found = []
    for place, topic in enumerate(INPUTS):
        keys = CITIES if topic == "cities" else KEYS
        for each in range(RECORDS):
            late = rng.choice(lateness) if each >= len(keys) else 0
            at = base + each * PHASE_MS // RECORDS - late
            key = rng.choice(keys) if each >= len(keys) else keys[each]
            is_deleted = topic in DELETED and rng.random() < 0.15
            named = rng.choice(VALUES) if topic in {"words", "users"} else f"{topic[0]}{number}-{each}"
            found.append(Sent(topic, key, None if is_deleted else named, at // 10 * 10 + place))
    return found
