"""Operators of streams: without state, and those with a processor of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .cases import Node
from .generator import PREDICATES, Generator, Handle


def filter_(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        stream = g.as_stream(handle)
        return g.keep(replace(stream, id=g.add(op, stream, f=g.pick(PREDICATES))))

    return apply


def map_(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    key_f, key = g.keys()
    value_f, value = g.mapper(stream.value)
    made = g.add("map", stream, key_f=key_f, value_f=value_f)
    return g.keep(Handle(made, "stream", key, value, "", ""))


def flat_map(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    key_f, key = g.keys()
    value_f, value = g.mapper(stream.value)
    made = g.add(
        "flat_map", stream, key_f=key_f, value_f=value_f, count=g.pick(("0", "1", "2", "2", "third"))
    )
    return g.keep(Handle(made, "stream", key, value, "", ""))


def map_values(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    value_f, value = g.mapper(stream.value)
    made = g.add("map_values", stream, value_f=value_f, with_key=g.maybe(0.4, value=True))
    return g.keep(replace(stream, id=made, value=value, value_serde=""))


def flat_map_values(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    value_f, value = g.mapper(stream.value)
    made = g.add(
        "flat_map_values",
        stream,
        value_f=value_f,
        with_key=g.maybe(0.4, value=True),
        count=g.pick(("0", "1", "2", "2", "third")),
    )
    return g.keep(replace(stream, id=made, value=value, value_serde=""))


def select_key(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    key_f, key = g.keys()
    return g.keep(replace(stream, id=g.add("select_key", stream, key_f=key_f), key=key, key_serde=""))


def peek(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    return g.keep(replace(stream, id=g.add("peek", stream)))


def merge(g: Generator, handle: Handle) -> Handle:
    stream = g.plain(handle)
    other = g.source("stream", stream.key, stream.value)
    made = g.add("merge", stream, other=other)
    return g.keep(replace(stream, id=made, key_serde="?", value_serde="?"))


def split(g: Generator, handle: Handle) -> Handle:
    stream = g.as_stream(handle)
    branches = [
        {"f": g.pick(PREDICATES)} | ({"name": f"branch{number}"} if g.chance(0.3) else {})
        for number in range(g.rng.randint(1, 3))
    ]
    default = g.chance(0.5)
    made = g.add("split", stream, branches=branches, default=default)
    parts = [replace(stream, id=f"{made}.{number}") for number in range(len(branches) + default)]
    for part in parts:
        g.keep(part)
    return parts[g.rng.randrange(len(parts))]


def repartition(g: Generator, handle: Handle) -> Handle:
    stream = g.plain(handle)
    # Java inherits the serde of values only
    key, value = g.serde("", stream.key), g.serde(stream.value_serde, stream.value)
    made = g.add("repartition", stream, key=key, value=value, partitions=g.maybe(0.15, 2), keeps=g.keeps())
    return g.keep(
        replace(stream, id=made, key_serde=key or stream.key_serde, value_serde=value or stream.value_serde)
    )


def to_table(g: Generator, handle: Handle) -> Handle:
    return g.as_table(g.plain(handle))


BEHAVIOURS: dict[str, tuple[tuple[str, ...], str, str]] = {
    # processor: (kinds of its store, type of the store's values, type of what it forwards; "" is the input's)
    "count": (("kv",), "long", "long"),
    "previous": (("timestamped",), "", "string"),
    "range": (("kv",), "", "string"),
    "windows": (("window",), "", "string"),
    "sessions": (("session",), "string", "string"),
    "versions": (("versioned",), "", "string"),
    "remember": (("headers",), "", "string"),
    "remember_windows": (("window_headers",), "", "string"),
    "remember_sessions": (("session_headers",), "", "string"),
    "buffer": (("kv",), "", ""),
    "headers": ((), "", ""),
    "where": ((), "", "string"),
    "commit": ((), "", ""),
    "fail_on_x": ((), "", ""),
}


def behaviour(g: Generator, *others: str) -> str:
    """One of the processors that may stand everywhere, or of some others."""
    if g.hostile and g.chance(0.3):
        return "fail_on_x"
    names = tuple(name for name in BEHAVIOURS if name not in {"buffer", "fail_on_x"})
    return str(g.pick((*names, *others)))


def processor_store(g: Generator, kind: str, key: str, value: str) -> Node:
    suppliers = {
        "kv": ("memory", "persistent", "lru"),
        "timestamped": ("memory", "timestamped"),
        "versioned": ("versioned",),
        "window": ("memory", "persistent"),
        "session": ("memory", "persistent"),
        "headers": ("memory", "headers"),
        "window_headers": ("headers",),
        "session_headers": ("headers",),
    }
    made: Node = {"name": g.name("state"), "kind": kind, "key": key, "value": value}
    made["supplier"] = g.pick(suppliers[kind])
    if kind.startswith("window"):
        made |= {"size": 50, "retention": g.pick((300, 100_000)), "duplicates": False}
    elif kind.startswith("session"):
        made["retention"] = g.pick((300, 100_000))
    elif kind == "versioned":
        made["history"] = g.pick((100, 1_000, 100_000))
    if kind != "versioned" and g.chance(0.3):
        made["cached"] = True
    if g.chance(0.2):
        made["logged"] = False
    return made


def punctuation(g: Generator) -> Node:
    """A schedule on stream time or on the clock; `times`: it cancels itself after so many calls."""
    made: Node = {"interval": g.pick((40, 100, 500)), "wall": g.chance(0.4)}
    if g.chance(0.3):
        made["start"] = g.pick((0, 1_000, 1_090, 1_500))
    if g.chance(0.4):
        made["times"] = g.pick((1, 2))
    if g.hostile and g.chance(0.4):
        made["fails"] = True
    return made


def process(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        stream = g.plain(handle)
        name = behaviour(g, *(("buffer",) if op == "process" else ()))
        kinds, kept, forwarded = BEHAVIOURS[name]
        if name == "buffer":
            stream = _present(g, stream)
        store = processor_store(g, kinds[0], stream.key, kept or stream.value) if kinds else None
        made = g.add(
            op,
            stream,
            processor=name,
            uses=store,
            provides=g.maybe(0.5, value=True) if store else None,
            punctuate=punctuation(g) if name == "buffer" or g.chance(0.35) else None,
        )
        value = forwarded or stream.value
        if op == "process":
            return g.keep(Handle(made, "stream", stream.key, value, "", ""))
        return g.keep(replace(stream, id=made, value=value, value_serde=""))

    return apply


def table_reader(g: Generator, handle: Handle) -> Handle:
    """A processor of a stream that reads the store of a table."""
    if not g.readable:
        stream = g.plain(handle)
        store = g.store(stream.key, stream.value, forced=True)
        assert store is not None
        store["name"] = store.get("name") or g.name("store")
        made = g.add("to_table", stream, store=store)
        g.keep(g.stored(replace(stream, id=made, kind="table"), store))
    store_name, key = g.pick(tuple(g.readable))
    stream = g.plain(handle)
    if stream.key != key or g.chance(0.3):
        stream = g.source("stream", key)
    op = g.pick(("process", "process_values"))
    made = g.add(op, stream, processor="lookup", looks_up=store_name, connects=True)
    return g.keep(Handle(made, "stream", stream.key, "string", "?", ""))


def _present(g: Generator, stream: Handle) -> Handle:
    """Without null keys."""
    return g.keep(replace(stream, id=g.add("filter", stream, f="keyed")))
