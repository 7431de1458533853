"""All joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .generator import GRACES, JOINERS, Generator, Handle


def stream_join(op: str, *, alone: bool = False) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        left = g.plain(handle)
        right = left if alone else g.source("stream", left.key)
        f, value = g.pick(JOINERS)
        before, after, grace = g.pick((0, 20, 50, 100)), g.pick((0, 20, 50, 100)), g.pick(GRACES)
        fields: dict[str, Any] = {"before": before, "after": after, "grace": grace}
        if g.chance(0.2):
            retention = before + after + grace
            stores = [
                {"name": g.name("join"), "supplier": g.pick(("memory", "persistent")), "retention": retention}
                for _ in range(2)
            ]
            fields |= {"left_store": stores[0], "right_store": stores[1]}
        made = g.add(
            op,
            left,
            other=right,
            f=f,
            with_key=g.maybe(0.3, value=True),
            key=left.key,
            value=left.value,
            other_value=right.value,
            store_name=g.name("joined") if g.is_named or g.chance(0.2) else None,
            # Kafka's stores of suppliers are logged, whatever StreamJoined says
            logged=None if "left_store" in fields else g.maybe(0.2, g.chance(0.3)),
            type=g.maybe(0.3, g.pick(("memory", "rocksdb"))),
            **fields,
        )
        return g.keep(Handle(made, "stream", left.key, value, "?", ""))

    return apply


def _versioned_table(g: Generator, stream: Handle, history: int) -> Handle:
    store = g.versioned(stream.key, stream.value, history)
    made = g.add("to_table", stream, store=store)
    return g.keep(
        replace(
            stream, id=made, kind="table", key_serde=stream.key, value_serde=stream.value, history=history
        )
    )


def stream_table(op: str, *, versioned: bool = False) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        left = g.plain(handle)
        grace = g.pick((0, 20, 100, 500, 600)) if versioned else None
        history = g.pick((500, 1_000, 100_000)) if versioned else 0
        if versioned and g.chance(0.3):
            right = _versioned_table(g, g.source("stream", left.key), history)
        else:
            right = g.source("table", left.key, history=history)
        f, value = g.pick(JOINERS)
        made = g.add(
            op,
            left,
            other=right,
            f=f,
            with_key=g.maybe(0.3, value=True),
            grace=grace,
            key=left.key,
            value=left.value,
            other_value=right.value,
        )
        return g.keep(Handle(made, "stream", left.key, value, "?", ""))

    return apply


def global_join(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        left = g.as_stream(handle)
        key_f, key = g.keys()
        right = g.source("global_table", key)
        f, value = g.pick(JOINERS)
        made = g.add(op, left, other=right, f=f, key_f=key_f, with_key=g.maybe(0.3, value=True))
        return g.keep(replace(left, id=made, value=value, value_serde=""))

    return apply


def table_join(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        left = g.serializable(handle)
        right = g.source("table", left.key, history=g.pick((0, 0, 0, 1_000)))
        f, value = g.pick(JOINERS)
        store = g.store(left.key, value)
        made = g.add(op, left, other=right, f=f, store=store)
        return g.keep(g.stored(Handle(made, "table", left.key, value, "?", ""), store))

    return apply


def foreign_join(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        left = g.serializable(handle)
        key_f, key = g.keys()
        right = g.source("table", key, history=g.pick((0, 0, 0, 1_000)))
        f, value = g.pick(JOINERS)
        store = g.store(left.key, value)
        made = g.add(op, left, other=right, f=f, key_f=key_f, with_key=g.maybe(0.4, value=True), store=store)
        return g.keep(g.stored(Handle(made, "table", left.key, value, left.key_serde, ""), store))

    return apply
