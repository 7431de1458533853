"""Groupings, windows and aggregates of streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .cases import Node
from .generator import GRACES, WINDOW_SIZES, Generator, Handle, is_known

AGGREGATORS = (("sum", "long"), ("concat", "string"), ("labelled", "string"), ("vanish", "string"))


def _grouped(g: Generator, stream: Handle) -> tuple[Handle, str]:
    """A grouping, and the key serde that Java knows of it."""
    by_key = g.chance(0.5)
    key_f, kind = ("", stream.key) if by_key else g.keys()
    inherited = (stream.key_serde if by_key else "", stream.value_serde)
    is_silent = is_known(inherited[0], kind) and is_known(inherited[1], stream.value) and g.chance(0.3)
    if is_silent:
        made = g.add("group_by_key" if by_key else "group_by", stream, named=False, key_f=key_f or None)
        known = inherited
    else:
        given = g.serde("", kind), g.serde("", stream.value)
        made = g.add(
            "group_by_key" if by_key else "group_by",
            stream,
            key_f=key_f or None,
            key=given[0],
            value=given[1],
        )
        # a Grouped without serdes but with a name hides those of before; without both it is not given
        is_given = any(given) or "name" in g.nodes[-1]
        known = (given[0] or "", given[1] or "") if is_given else inherited
    grouped = replace(stream, id=made, kind="grouped", key=kind, key_serde=known[0], value_serde=known[1])
    return grouped, known[0]


def _aggregated(
    g: Generator, grouped: Handle, op: str, *, forms: str = "kv", span: int = 0, on_close: bool = False
) -> tuple[str, str, Node | None]:
    """An aggregate of a grouping or of windows: its node's id, type of value and store."""
    fields: dict[str, Any] = {"on_close": True if on_close else None}
    if op == "count":
        value = "long"
    elif op == "reduce":
        value = grouped.value
        fields["f"] = g.pick(("sum", "last") if value == "long" else ("concat", "strike", "last", "vanish"))
    else:
        fields["f"], value = g.pick(AGGREGATORS)
        fields["initial"] = "zero" if value == "long" else g.pick(("empty", "empty", "nothing"))
        if forms == "session":
            fields["merge_f"] = "sum" if value == "long" else "concat"
    # without a store Java has no serde for an aggregate of another type than the default's
    forced = op == "aggregate" and value == "long"
    store = g.store(grouped.key, value, forms=forms, span=span, forced=forced)
    if on_close and forms == "session" and store is not None and "supplier" in store and g.chance(0.6):
        # final results need the order of time, which Kafka's session stores of suppliers lack: they raise
        store["type"] = "memory" if store.pop("supplier") == "memory" else "rocksdb"
    # Java's reduce and aggregate of a KGroupedStream take a name only together with a store
    named = store is not None or op == "count" or grouped.kind == "windowed"
    return g.add(op, grouped, named=named, **fields, store=store), value, store


def aggregate(op: str) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        grouped, known = _grouped(g, g.plain(handle))
        made, value, store = _aggregated(g, grouped, op)
        serde = {"count": "long", "reduce": grouped.value_serde, "aggregate": ""}[op]
        return g.keep(g.stored(Handle(made, "table", grouped.key, value, known, serde), store))

    return apply


def _window(g: Generator, grouped: Handle, kind: str) -> tuple[Handle, str, int, str]:
    """Windows over a grouping: handle, form of the store, its least retention, type of the key."""
    size = g.pick(WINDOW_SIZES)
    grace = g.pick(GRACES)
    fields: dict[str, Any] = {"kind": "tumbling" if kind == "hopping" else kind, "size": size, "grace": grace}
    if kind == "hopping":
        fields["advance"] = g.pick((size // 2, 30, size))
    if kind == "unlimited":
        fields = {"kind": kind, "start": g.pick((0, 1_050))}
    made = g.add("window", grouped, named=False, **fields)
    windowed = replace(grouped, id=made, kind="windowed")
    if kind == "session":
        return windowed, "session", size + grace, f"session:{grouped.key}"
    if kind == "unlimited":
        return windowed, "window", 0, f"time:{grouped.key}:{2**63 - 1}"
    return windowed, "window", (2 if kind == "sliding" else 1) * size + grace, f"time:{grouped.key}:{size}"


def windowed(kind: str, op: str | None = None) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        grouped, known = _grouped(g, g.plain(handle))
        chosen = op or g.pick(("count", "reduce", "aggregate"))
        windowed, forms, span, key = _window(g, grouped, kind)
        on_close = kind != "unlimited" and op is None and g.chance(0.25)
        if kind == "unlimited":
            made, value, store = _unlimited(g, windowed, chosen)
        else:
            made, value, store = _aggregated(g, windowed, chosen, forms=forms, span=span, on_close=on_close)
        serde = {"count": "long", "reduce": grouped.value_serde, "aggregate": ""}[chosen]
        known = key if known == grouped.key else "?"
        result = Handle(made, "table", key, value, known, serde, closes=kind != "unlimited")
        if store is not None:
            result = replace(result, key_serde=key, value_serde=value)
        return g.keep(result)

    return apply


def _unlimited(g: Generator, windowed: Handle, op: str) -> tuple[str, str, Node | None]:
    """Unlimited windows need the longest retention: their store is by name only."""
    made, value, store = _aggregated(g, windowed, op, forms="kv")
    if store is not None:
        for field in ("supplier", "retention", "history"):
            store.pop(field, None)
    return made, value, store


def cogroup(*, windowed: bool) -> Callable[[Generator, Handle], Handle]:
    def apply(g: Generator, handle: Handle) -> Handle:
        first, _ = _grouped(g, g.plain(handle))
        aggregator, value = g.pick(AGGREGATORS)
        others = tuple(name for name, kind in AGGREGATORS if kind == value)
        made = g.add("cogroup", first, named=False, f=aggregator)
        for _ in range(g.rng.randint(0, 2)):
            stream = g.source("stream", first.key)
            other = g.add("group_by_key", stream, key=first.key, value=stream.value)
            g.nodes.append(
                {
                    "id": f"n{len(g.nodes)}",
                    "op": "cogroup",
                    "input": made,
                    "other": other,
                    "f": g.pick(others),
                }
            )
            made = g.nodes[-1]["id"]
        cogrouped = replace(first, id=made, kind="cogrouped", value=value)
        forms, span, key_type, window_kind = "kv", 0, first.key, ""
        if windowed:
            window_kind = g.pick(("tumbling", "hopping", "sliding", "session"))
            cogrouped, forms, span, key_type = _window(g, cogrouped, window_kind)
        fields: dict[str, Any] = {"initial": "zero" if value == "long" else "empty"}
        if forms == "session":
            fields["merge_f"] = "sum" if value == "long" else "concat"
        store = g.store(first.key, value, forms=forms, span=span, forced=True)
        made = g.add("aggregate", cogrouped, **fields, store=store)
        return g.keep(Handle(made, "table", key_type, value, key_type, value, closes=windowed))

    return apply
