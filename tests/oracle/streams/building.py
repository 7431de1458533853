"""A case's topology in headrace.stream, node by node; java/Building.java has the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headrace.clients import serdes
from headrace.stream.dsl import suppressed, windows
from headrace.stream.dsl.stores import Store, processor_store
from headrace.stream.dsl.stream_joins import JoinSerdes
from headrace.stream.dsl.windowed_serdes import session_windowed, time_windowed
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.topology.topology import Topology

from .behaviours import Behaviour, Keeper, Transformer
from .cases import Case, Node
from .functions import (
    AGGREGATORS,
    INITIAL,
    JOINERS,
    KEYS,
    MERGERS,
    PREDICATES,
    REDUCERS,
    VALUES,
    number,
    pairs,
    text,
    values,
)

_LINE_END = re.compile(r"\r\n|\r|\n")
KINDS = {
    "kv": StoreKind.KEY_VALUE,
    "timestamped": StoreKind.TIMESTAMPED_KEY_VALUE,
    "versioned": StoreKind.VERSIONED_KEY_VALUE,
    "window": StoreKind.WINDOW,
    "session": StoreKind.SESSION,
    "headers": StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
    "window_headers": StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
    "session_headers": StoreKind.SESSION_WITH_HEADERS,
}
LRU_ENTRIES = 2
# as Java's strings: bytes that are no UTF-8 are replaced
LENIENT = serdes.Serde("lenient", str.encode, lambda data: data.decode(errors="replace"))


def serde(name: str | None) -> Any:
    """string, long, time:string:SIZE, session:string."""
    if name is None:
        return None
    kind, _, rest = name.partition(":")
    if kind == "time":
        inner, _, size = rest.partition(":")
        return time_windowed(serde(inner), int(size))
    if kind == "session":
        return session_windowed(serde(rest))
    return {"string": serdes.utf8, "long": serdes.int64, "lenient": LENIENT}[name]


def store(spec: Node | None) -> Store | None:
    """The store of an operator."""
    if spec is None:
        return None
    supplier, kind = spec.get("supplier"), spec.get("type")
    persistent = None
    if supplier or kind:
        persistent = supplier in {"persistent", "timestamped", "versioned", "headers"} or kind == "rocksdb"
    return Store(
        spec.get("name"),
        key=serde(spec.get("key")),
        value=serde(spec.get("value")),
        persistent=persistent,
        cached=spec.get("cached"),
        logged=spec.get("logged", True),
        retention=spec.get("retention"),
        history=spec.get("history"),
        max_entries=LRU_ENTRIES if supplier == "lru" else None,
        time_ordered=supplier is None,
        kind=KINDS[spec["kind"]] if "kind" in spec else StoreKind.KEY_VALUE,
        window_size=spec.get("size"),
        retain_duplicates=spec.get("duplicates", False),
    )


class Shifted:
    """A timestamp extractor that adds some ms."""

    def __init__(self, shift_ms: int) -> None:
        self._shift_ms = shift_ms

    def extract(self, record: Any, _partition_time: int, _wall_ms: int) -> int:
        """The timestamp to use."""
        return int(record.timestamp) + self._shift_ms


def source_options(node: Node) -> dict[str, Any]:
    """What every source has."""
    shift = node.get("shift")
    reset = {"offset_reset": node["reset"]} if "reset" in node else {}
    return reset | {
        "key": serde(node.get("key")),
        "value": serde(node.get("value")),
        "timestamp": None if shift is None else Shifted(shift),
    }


class Provider:
    """A factory of processors that bring their store."""

    def __init__(self, make: Callable[[], Any], node: Node) -> None:
        self._make = make
        is_provided = node.get("provides") or node.get("adds") == "provided"
        self._store = store(node["uses"]) if is_provided else None

    def create(self) -> Any:
        """A processor of one task."""
        return self._make()

    def stores(self) -> tuple[Any, ...]:
        """The builder of its store, if it brings one."""
        return () if self._store is None else (processor_store(self._store, persistent=True),)


class Building:
    """Builds the nodes of a case. `effects`: what functions and punctuators saw; `printed`: lines by node."""

    def __init__(self, app: Any, effects: list[str], printed: dict[str, list[str]]) -> None:
        self.app = app
        self.effects = effects
        self.printed = printed
        self.made: dict[str, Any] = {}

    def build(self, case: Case) -> None:
        """All nodes, in order; those of the Processor API when the others are complete."""
        for node in case["nodes"]:
            if not node["op"].startswith("add_"):
                source = self.made[node["input"]] if "input" in node else None
                result = getattr(self, f"_{node['op']}")(node, source)
                if result is not None:
                    self.made[node["id"]] = result
        topology = self.app.topology()
        for node in case["nodes"]:
            if node["op"].startswith("add_"):
                add(topology, node, self.effects)

    # --- sources ---

    @staticmethod
    def _consumed(node: Node) -> dict[str, Any]:
        return source_options(node) | _named(node)

    def _stream(self, node: Node, _: Any) -> Any:
        topics = [re.compile(node["pattern"])] if "pattern" in node else node["topics"]
        return self.app.stream(*topics, **self._consumed(node))

    def _table(self, node: Node, _: Any) -> Any:
        return self.app.table(node["topic"], **self._consumed(node), store=store(node.get("store")))

    def _global_table(self, node: Node, _: Any) -> Any:
        return self.app.global_table(node["topic"], **self._consumed(node), store=store(node.get("store")))

    def _global_store(self, node: Node, _: Any) -> None:
        self.app.add_global_store(
            store(node["uses"]), node["topic"], lambda: Keeper(node), **self._consumed(node)
        )

    # --- streams ---

    def _filter(self, node: Node, source: Any) -> Any:
        return source.filter(PREDICATES[node["f"]], **_named(node), **_stored(node))

    def _filter_not(self, node: Node, source: Any) -> Any:
        return source.filter_not(PREDICATES[node["f"]], **_named(node), **_stored(node))

    def _map(self, node: Node, source: Any) -> Any:
        to_key, to_value = KEYS[node["key_f"]], VALUES[node["value_f"]]
        return source.map(lambda key, value: (to_key(key, value), to_value(key, value)), **_named(node))

    def _flat_map(self, node: Node, source: Any) -> Any:
        fixed = node["key_f"], node["value_f"], node["count"]
        return source.flat_map(lambda key, value: pairs(*fixed, key, value), **_named(node))

    def _select_key(self, node: Node, source: Any) -> Any:
        return source.select_key(KEYS[node["key_f"]], **_named(node))

    def _map_values(self, node: Node, source: Any) -> Any:
        f = VALUES[node["value_f"]]
        options = _named(node) | _stored(node)
        if node.get("with_key"):
            return source.map_values(f, with_key=True, **options)
        return source.map_values(lambda value: f(None, value), **options)

    def _flat_map_values(self, node: Node, source: Any) -> Any:
        fixed = node["value_f"], node["count"]
        if node.get("with_key"):
            return source.flat_map_values(
                lambda key, value: values(*fixed, key, value), with_key=True, **_named(node)
            )
        return source.flat_map_values(lambda value: values(*fixed, None, value), **_named(node))

    def _effect(self, node: Node) -> Callable[[Any, Any], None]:
        return lambda key, value: self.effects.append(f"{node['id']}: {text(key)}={text(value)}")

    def _peek(self, node: Node, source: Any) -> Any:
        return source.peek(self._effect(node), **_named(node))

    def _foreach(self, node: Node, source: Any) -> None:
        source.foreach(self._effect(node), **_named(node))

    def _print(self, node: Node, source: Any) -> None:
        f = VALUES[node["value_f"]]
        lines = self.printed.setdefault(node["id"], [])
        label = {"label": node["label"]} if "label" in node else {}
        source.print(
            mapper=lambda key, value: text(f(key, value)),
            write=lambda line: lines.extend(_LINE_END.split(line)[:-1]),  # as Java reads its file
            **label,
            **_named(node),
        )

    def _merge(self, node: Node, source: Any) -> Any:
        return source.merge(self.made[node["other"]], **_named(node))

    def _split(self, node: Node, source: Any) -> None:
        split = source.split(**_named(node))

        def keep(place: int) -> Callable[[Any], None]:
            return lambda branch: self.made.update({f"{node['id']}.{place}": branch})

        for place, branch in enumerate(node["branches"]):
            split.branch(PREDICATES[branch["f"]], chain=keep(place), **_named(branch))
        if node.get("default"):
            split.default_branch(chain=keep(len(node["branches"])))

    def _repartition(self, node: Node, source: Any) -> Any:
        options = _serdes(node) | _named(node) | _partitioned(node)
        return source.repartition(partitions=node.get("partitions"), **options)

    def _to(self, node: Node, source: Any) -> None:
        source.to(_sink_topic(node), **_serdes(node), **_named(node), **_partitioned(node))

    def _to_table(self, node: Node, source: Any) -> Any:
        return source.to_table(**_named(node), **_stored(node))

    def _uses(self, node: Node) -> tuple[str, ...]:
        """The names of the stores to connect; adds one that the processor does not bring."""
        if node.get("connects"):
            return (node["looks_up"],)
        if "uses" not in node or node.get("provides"):
            return ()
        self.app.add_store(store(node["uses"]))
        return (node["uses"]["name"],)

    def _process(self, node: Node, source: Any) -> Any:
        factory = Provider(lambda: Behaviour(node, self.effects), node)
        return source.process(factory, *self._uses(node), **_named(node))

    def _process_values(self, node: Node, source: Any) -> Any:
        factory = Provider(lambda: Behaviour(node, self.effects), node)
        return source.process_values(factory, *self._uses(node), **_named(node))

    # --- groups, windows, aggregates ---

    def _group_by_key(self, node: Node, source: Any) -> Any:
        return source.group_by_key(**_serdes(node), **_named(node))

    def _group_by(self, node: Node, source: Any) -> Any:
        to_key = KEYS[node["key_f"]]
        if "value_f" not in node:
            return source.group_by(to_key, **_serdes(node), **_named(node))
        to_value = VALUES[node["value_f"]]
        return source.group_by(
            lambda key, value: (to_key(key, value), to_value(key, value)), **_serdes(node), **_named(node)
        )

    def _cogroup(self, node: Node, source: Any) -> Any:
        aggregator = AGGREGATORS[node["f"]]
        if "other" in node:
            return source.cogroup(self.made[node["other"]], aggregator)
        return source.cogroup(aggregator)

    def _window(self, node: Node, source: Any) -> Any:
        kind, size, grace = node["kind"], node.get("size"), node.get("grace", 0)
        if kind == "session":
            made: Any = windows.session(size, grace=grace)
        elif kind == "sliding":
            made = windows.sliding(size, grace=grace)
        elif kind == "unlimited":
            made = windows.unlimited(start=node["start"])
        elif "advance" in node:
            made = windows.hopping(size, advance=node["advance"], grace=grace)
        else:
            made = windows.tumbling(size, grace=grace)
        return source.windowed_by(made)

    @staticmethod
    def _emitting(node: Node, source: Any) -> Any:
        return source.emit("close") if node.get("on_close") else source

    def _count(self, node: Node, source: Any) -> Any:
        return self._emitting(node, source).count(**_named(node), **_stored(node))

    def _reduce(self, node: Node, source: Any) -> Any:
        functions = [REDUCERS[node[name]] for name in ("f", "subtract_f") if name in node]
        return self._emitting(node, source).reduce(*functions, **_named(node), **_stored(node))

    def _aggregate(self, node: Node, source: Any) -> Any:
        initial = INITIAL[node["initial"]]
        functions: list[Any] = [AGGREGATORS[node[name]] for name in ("f", "subtract_f") if name in node]
        merger = {"merge": MERGERS[node["merge_f"]]} if "merge_f" in node else {}
        return self._emitting(node, source).aggregate(
            lambda: initial, *functions, **merger, **_named(node), **_stored(node)
        )

    # --- tables ---

    def _transform_values(self, node: Node, source: Any) -> Any:
        return source.transform_values(
            lambda: Transformer(node), *self._uses(node), **_named(node), **_stored(node)
        )

    def _to_stream(self, node: Node, source: Any) -> Any:
        if "key_f" in node:
            return source.to_stream(KEYS[node["key_f"]], **_named(node))
        return source.to_stream(**_named(node))

    def _suppress(self, node: Node, source: Any) -> Any:
        limits = {name: node[name] for name in ("max_records", "max_bytes", "name", "logged") if name in node}
        if "until_ms" in node:
            full = node.get("shut_down", False)
            return source.suppress(
                suppressed.until_time_limit(node["until_ms"], **limits, shut_down_when_full=full)
            )
        return source.suppress(suppressed.until_window_closes(**limits))

    # --- joins ---

    def _join(self, node: Node, source: Any) -> Any:
        return self._joined(node, source, "inner")

    def _left_join(self, node: Node, source: Any) -> Any:
        return self._joined(node, source, "left")

    def _outer_join(self, node: Node, source: Any) -> Any:
        return self._joined(node, source, "outer")

    def _foreign_join(self, node: Node, source: Any) -> Any:
        return self._foreign_joined(node, source, "inner")

    def _left_foreign_join(self, node: Node, source: Any) -> Any:
        return self._foreign_joined(node, source, "left")

    def _joined(self, node: Node, source: Any, how: str) -> Any:
        options: dict[str, Any] = {"how": how, **_named(node), **_stored(node)}
        if "before" in node:
            options["window"] = windows.join_window(
                0, before=node["before"], after=node["after"], grace=node["grace"]
            )
            options |= _join_stores(node)
        elif "grace" in node:
            options["grace"] = node["grace"]
        if "key_f" in node:
            options["key"] = KEYS[node["key_f"]]
        if {"key", "value", "other_value"} & set(node):
            given = (serde(node.get(name)) for name in ("key", "value", "other_value"))
            options["serdes"] = JoinSerdes(*given)
        joiner = JOINERS[node["f"]]
        other = self.made[node["other"]]
        if node.get("with_key"):
            return source.join(other, joiner, with_key=True, **options)
        return source.join(other, lambda left, right: joiner(None, left, right), **options)

    def _foreign_joined(self, node: Node, source: Any, how: str) -> Any:
        joiner, key_f = JOINERS[node["f"]], KEYS[node["key_f"]]
        foreign: Any = key_f if node.get("with_key") else lambda value: key_f(None, value)
        return source.join(
            self.made[node["other"]],
            lambda left, right: joiner(None, left, right),
            foreign_key=foreign,
            with_key=node.get("with_key", False),
            how=how,
            **_named(node),
            **_stored(node),
        )


def _named(node: Node) -> dict[str, Any]:
    return {"name": node["name"]} if "name" in node else {}


def _stored(node: Node) -> dict[str, Any]:
    return {"store": store(node["store"])} if "store" in node else {}


def _serdes(node: Node) -> dict[str, Any]:
    return {name: serde(node[name]) for name in ("key", "value") if name in node}


def _partitioned(node: Node) -> dict[str, Any]:
    """A partitioner that drops records."""
    if "keeps" not in node:
        return {}
    keeps = PREDICATES[node["keeps"]]
    return {"partitioner": lambda _topic, key, value, _count: 0 if keeps(key, value) else ()}


def _join_stores(node: Node) -> dict[str, Any]:
    """The stores of both sides of a stream-stream join."""
    if "left_store" in node:
        return {"store": store(node["left_store"]), "other_store": store(node["right_store"])}
    fields = {
        "name": node.get("store_name"),
        "logged": node.get("logged"),
        "type": node.get("type"),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return {"store": store(given)} if given else {}


# --- the Processor API ---


def add(topology: Topology, node: Node, effects: list[str]) -> None:
    """A node of `Topology.add_*`."""
    name, parents = node["id"], node.get("parents", ())
    if node["op"] == "add_source":
        topics = [re.compile(node["pattern"])] if "pattern" in node else node["topics"]
        topology.add_source(name, *topics, **source_options(node))
    elif node["op"] == "add_sink":
        topology.add_sink(name, _sink_topic(node), *parents, **_serdes(node), **_partitioned(node))
    elif node["op"] == "add_processor":
        _add_processor(topology, node, effects)
    else:
        method = (
            topology.add_global_store
            if node["op"] == "add_global_store"
            else topology.add_read_only_state_store
        )
        kept = processor_store(store(node["uses"]), persistent=True)  # type: ignore[arg-type]
        method(kept, f"{name}-source", node["topic"], name, lambda: Keeper(node), **source_options(node))


def _add_processor(topology: Topology, node: Node, effects: list[str]) -> None:
    name, how = node["id"], node.get("adds")
    made = processor_store(store(node["uses"]), persistent=True) if how else None  # type: ignore[arg-type]
    if made is not None and how == "given":
        topology.add_state_store(made)
    given = [made.name] if made is not None and how == "given" else []
    topology.add_processor(
        name, Provider(lambda: Behaviour(node, effects), node), *node["parents"], stores=given
    )
    if made is not None and how == "added":
        topology.add_state_store(made, name)
    elif made is not None and how == "connected":
        topology.add_state_store(made).connect_processor_and_state_stores(name, made.name)
    elif how is None and "uses" in node:
        topology.connect_processor_and_state_stores(name, node["uses"]["name"])
    if node.get("connects"):
        topology.connect_processor_and_state_stores(name, node["looks_up"])


def _sink_topic(node: Node) -> Any:
    return node.get("topic") or (lambda _key, value, _context: node["topics"][number(value) % 2])
