"""Operators of tables but joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .aggregate_operators import windowed
from .generator import PREDICATES, Generator, Handle, is_known
from .stream_operators import processor_store


def table_filter(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        table = g.as_table(handle)
        store = None if table.is_windowed else g.store(table.key, table.value)
        made = replace(table, id=g.add(op, table, f=g.pick(PREDICATES), store=store), history=0)
        return g.keep(g.stored(made, store))

    return apply


def table_values(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        table = g.as_table(handle)
        value_f, value = g.mapper(table.value)
        uses = None
        if op == "transform_values" and g.chance(0.5) and not table.is_windowed:
            uses, value = processor_store(g, "kv", table.key, "long"), "string"
        store = None if table.is_windowed else g.store(table.key, value)
        with_key = g.maybe(0.4, value=True) if op == "map_values" else None
        made = g.add(
            op,
            table,
            value_f=value_f,
            with_key=with_key,
            uses=uses,
            store=store,
        )
        return g.keep(g.stored(replace(table, id=made, value=value, value_serde="", history=0), store))

    return apply


def to_stream(g: Generator, handle: Handle) -> Handle:
    table = g.as_table(handle)
    if g.chance(0.6):
        return g.as_stream(table)
    key_f, key = g.keys()
    made = g.add("to_stream", table, key_f=key_f)
    return g.keep(replace(table, id=made, kind="stream", key=key, key_serde="", history=0, closes=False))


def table_aggregate(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        table = g.as_table(handle)
        key_f, key = g.keys()
        value_f, value = ("same", table.value) if g.chance(0.5) else g.mapper(table.value)
        known = {"key": g.serde("", key), "value": g.serde("", value)}
        grouped = g.add("group_by", table, key_f=key_f, value_f=value_f, **known)
        handle = Handle(grouped, "grouped_table", key, value, known["key"] or "", known["value"] or "")
        fields: dict[str, Any] = {}
        made_value = "long"
        if op == "reduce":
            made_value = value
            numbers = value == "long"
            fields = {"f": "sum" if numbers else "concat", "subtract_f": "minus" if numbers else "strike"}
        elif op == "aggregate":
            made_value = g.pick(("string", "long"))
            numbers = made_value == "long"
            fields = {"f": "sum" if numbers else "concat", "subtract_f": "minus" if numbers else "strike"}
            fields["initial"] = "zero" if numbers else "empty"
        forced = op == "aggregate" and made_value == "long"
        store = g.store(key, made_value, forced=forced)
        made = g.add(op, handle, named=store is not None or op != "reduce", **fields, store=store)
        serde = {"count": "long", "reduce": handle.value_serde, "aggregate": ""}[op]
        return g.keep(g.stored(Handle(made, "table", key, made_value, handle.key_serde, serde), store))

    return apply


def suppress_time(g: Generator, handle: Handle) -> Handle:
    table = g.serializable(handle)
    if table.history:
        table = g.serializable(g.as_stream(table))
    fields: dict[str, Any] = {"until_ms": g.pick((0, 30, 100, 500))}
    if g.chance(0.5):
        fields |= {"max_records": g.pick((1, 2, 3))}
    elif g.chance(0.5):
        fields |= {"max_bytes": g.pick((60, 120, 300))}
    if ("max_records" in fields or "max_bytes" in fields) and g.chance(0.1):
        fields["shut_down"] = True
    made = g.add("suppress", table, **fields, logged=g.maybe(0.15, value=False))
    return g.keep(replace(table, id=made, history=0))


def suppress_window(g: Generator, handle: Handle) -> Handle:
    table = handle
    known = handle.is_windowed and is_known(handle.key_serde, handle.key)
    if not (
        handle.kind == "table" and handle.closes and known and is_known(handle.value_serde, handle.value)
    ):
        table = windowed(g.pick(("tumbling", "hopping", "sliding", "session")), "count")(g, handle)
        if not is_known(table.key_serde, table.key):
            g.nodes[-1]["store"] = {"key": table.key.split(":")[1], "value": "long"}
            table = replace(table, key_serde=table.key, value_serde="long")
    made = g.add("suppress", table, logged=g.maybe(0.15, value=False))
    return g.keep(replace(table, id=made, closes=False))
