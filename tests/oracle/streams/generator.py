"""Builds a random case node by node, and knows what Kafka Streams knows at each: kinds, types, serdes."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, replace
from typing import Any

from .cases import Node

TYPES = ("string", "long")
# no name is the beginning of another: patterns of sources are such a beginning
TOPICS = string.digits + string.ascii_letters
WINDOW_SIZES = (50, 100, 150)
GRACES = (0, 0, 20, 100, 1_000)
JOINERS = (("pair", "string"), ("labelled", "string"), ("sum", "long"), ("vanish", "string"))
LONG_MAPPERS = ("length", "number", "double")
STRING_MAPPERS = ("upper", "exclaim", "text", "labelled")
LONG_KEYS = ("length", "bucket", "bucket")
STRING_KEYS = ("first", "first", "text", "text", "value_text", "vanish")
PREDICATES = ("even", "even", "odd_key", "has_a", "present", "present", "keyed", "all", "all", "none")


@dataclass(frozen=True)
class Handle:
    """What a node gives. `key_serde`, `value_serde`: what Java knows by then, "" none, "?" unsure."""

    id: str
    kind: str  # stream, table, global_table
    key: str
    value: str
    key_serde: str = "?"
    value_serde: str = "?"
    history: int = 0  # ms, of a versioned table
    closes: bool = False  # a windowed table whose windows close

    @property
    def is_windowed(self) -> bool:
        """Whether keys carry a window."""
        return ":" in self.key


def is_known(serde: str, kind: str) -> bool:
    """Whether Java serializes `kind` without further arguments; strings are the default."""
    return serde == kind or (serde == "" and kind == "string")


class Generator:
    """Builds one case node by node. Every choice is of `rng`. `is_named`: all that can have a name has one.

    `topics`: those that get events; their types.
    """

    def __init__(self, rng: random.Random, *, hostile: bool = False, is_named: bool = False) -> None:
        self.rng = rng
        self.nodes: list[Node] = []
        self.topics: dict[str, tuple[str, str]] = {}
        self.consumed: set[str] = set()
        self.handles: list[Handle] = []
        self.subscribed: list[tuple[Node, str, str]] = []  # topics of streams, types of keys and values
        self.readable: list[tuple[str, str]] = []  # stores of tables, and their types of keys
        self.hostile = hostile
        self.is_named = is_named
        self._names = 0
        self._topics = 0

    # --- nodes ---

    def add(self, op: str, source: Handle | None = None, *, named: bool = True, **fields: Any) -> str:
        """A new node; its id. Fields that are None are left out."""
        node: Node = {"id": f"n{len(self.nodes)}", "op": op}
        if source is not None:
            node["input"] = source.id
            self.consumed.add(source.id)
        if isinstance(other := fields.get("other"), Handle):
            self.consumed.add(other.id)
            fields["other"] = other.id
        if named and (self.chance(0.3) or self.is_named):
            node["name"] = self.name("op")
        node.update({name: value for name, value in fields.items() if value is not None})
        self.nodes.append(node)
        return str(node["id"])

    def keep(self, handle: Handle) -> Handle:
        """Make the result of an operator available to the following ones."""
        self.handles.append(handle)
        return handle

    def name(self, prefix: str) -> str:
        """A name that is not taken."""
        self._names += 1
        return f"{prefix}-{self._names}"

    def topic(self, key: str, value: str, *, is_fed: bool = True) -> tuple[str, str]:
        """A topic that nothing else uses, and its type of values. `is_fed`: it gets events."""
        name = f"in{TOPICS[self._topics]}"
        self._topics += 1
        if is_fed:
            self.topics[name] = (key, value)
        return name, value

    def chance(self, probability: float) -> bool:
        """True in this share of cases."""
        return self.rng.random() < probability

    def pick(self, choices: tuple[Any, ...]) -> Any:
        """One of them."""
        return self.rng.choice(choices)

    def maybe(self, probability: float, value: Any) -> Any:
        """The value in this share of cases, else None: the field is left out."""
        return value if self.chance(probability) else None

    # --- parts ---

    def serde(self, known: str, kind: str) -> str | None:
        """The serde to give, or None where Java does without and chance leaves it out."""
        if self.hostile and self.chance(0.05):
            return "string" if kind == "long" else "long"
        return self.fitting_serde(known, kind)

    def fitting_serde(self, known: str, kind: str) -> str | None:
        """The same, never a wrong one."""
        return None if is_known(known, kind) and self.chance(0.5) else kind

    def store(
        self, key: str, value: str, *, forms: str = "kv", span: int = 0, forced: bool = False
    ) -> Node | None:
        """A Materialized, or None. `forms`: kv, window or session; `span`: the least retention, in ms."""
        if not forced and not self.is_named and self.chance(0.35):
            return None
        made: Node = {"key": key, "value": value}
        if self.chance(0.45) or self.is_named:
            made["name"] = self.name("store")
        form = self.rng.random()
        if form < 0.3:
            made["name"] = made.get("name") or self.name("store")
            made["supplier"] = self.pick(("memory", "persistent" if forms == "session" else "timestamped"))
            if forms in {"window", "session"}:
                made["retention"] = span + self.pick((0, 0, 100, 100_000))
            elif self.chance(0.1):
                made["supplier"] = "lru"
        elif form < 0.6:
            made["type"] = self.pick(("memory", "memory", "rocksdb"))
        if forms in {"window", "session"} and "supplier" not in made and self.chance(0.3):
            made["retention"] = span + self.pick((0, 100, 100_000))
        if self.chance(0.4):
            made["cached"] = self.chance(0.5)
        if self.chance(0.25):
            made["logged"] = self.chance(0.4)
        return made

    def versioned(self, key: str, value: str, history: int) -> Node:
        """A Materialized of a versioned store."""
        made = {
            "key": key,
            "value": value,
            "name": self.name("store"),
            "supplier": "versioned",
            "history": history,
        }
        return made | ({"logged": False} if self.chance(0.1) else {})

    def stored(self, handle: Handle, store: Node | None) -> Handle:
        """The handle of a table that may have a store with serdes."""
        if store is None:
            return handle
        if "name" in store:
            self.readable.append((str(store["name"]), handle.key))
        return replace(handle, key_serde=handle.key, value_serde=handle.value)

    def mapper(self, value: str) -> tuple[str, str]:
        """A value function and the type that it gives."""
        if self.hostile and self.chance(0.4):
            return "fail_on_x", value
        kind = self.rng.random()
        if kind < 0.15:
            return "vanish", value
        if kind < 0.6:
            return self.pick(STRING_MAPPERS), "string"
        return self.pick(LONG_MAPPERS), "long"

    def keys(self) -> tuple[str, str]:
        """A key function and the type that it gives."""
        return (self.pick(STRING_KEYS), "string") if self.chance(0.6) else (self.pick(LONG_KEYS), "long")

    def keeps(self) -> str | None:
        """The predicate of a partitioner that returns no partition for other records: they are dropped."""
        return self.maybe(0.08, self.pick(("even", "present", "all")))

    # --- sources ---

    def source(self, kind: str, key: str = "", value: str = "", history: int = 0) -> Handle:
        """A new source, or an existing one that fits."""
        for each in self.handles:
            fits = each.kind == kind and each.key == (key or each.key) and each.value == (value or each.value)
            if fits and history <= each.history and not (each.history and not history) and self.chance(0.3):
                return each
        if kind == "stream" and (again := self._subscribed_again(key, value)) is not None:
            return again
        key = key or self.pick(("string", "string", "long"))
        value = value or self.pick(TYPES)
        topic, _ = self.topic(key, value)
        # a table whose store has other serdes than its source has no meaning
        chosen = self.serde if kind == "stream" else self.fitting_serde
        serdes = {"key": chosen("", key), "value": chosen("", value)}
        given = {"key_serde": serdes["key"] or "", "value_serde": serdes["value"] or ""}
        if kind == "stream":
            names = [topic]
            if self.chance(0.06):
                names.append(self.topic(key, value)[0])
            where = {"pattern": topic + ".*"} if len(names) == 1 and self.chance(0.03) else {"topics": names}
            self.subscribed.append((where, key, value))
            made = self.add(kind, **where, **serdes, shift=self.shift(), reset=self.maybe(0.05, "earliest"))
            return self.keep(Handle(made, kind, key, value, **given))
        store = self.versioned(key, value, history) if history else self.store(key, value)
        if kind == "global_table" and store:
            store.pop("logged", None)
            store["name"] = store.get("name") or self.name("global")
        made = self.add(kind, topic=topic, **serdes, store=store)
        if kind == "table" and store and "name" in store:
            self.readable.append((store["name"], key))
        return self.keep(Handle(made, kind, key, value, **given, history=history))

    def _subscribed_again(self, key: str, value: str) -> Handle | None:
        """A second source of the same topics, which Kafka merges with the first; or, an error, of some."""
        fitting = [
            each for each in self.subscribed if each[1] == (key or each[1]) and each[2] == (value or each[2])
        ]
        if not fitting or not self.chance(0.06):
            return None
        where, key, value = self.rng.choice(fitting)
        if "topics" in where and self.chance(0.1):
            where = {"topics": where["topics"][:1]}
        serdes = {"key": self.fitting_serde("", key), "value": self.fitting_serde("", value)}
        made = self.add("stream", **where, **serdes, reset=self.maybe(0.05, "earliest"))
        known = {"key_serde": serdes["key"] or "", "value_serde": serdes["value"] or ""}
        return self.keep(Handle(made, "stream", key, value, **known))

    def shift(self) -> int | None:
        """What a timestamp extractor adds: so much in hostile cases that timestamps become negative."""
        return self.maybe(0.2, -1_100) if self.hostile else self.maybe(0.05, 5)

    # --- from one kind of input to another ---

    def as_stream(self, handle: Handle) -> Handle:
        """The handle, or its updates as a stream."""
        if handle.kind == "stream":
            return handle
        made = self.add("to_stream", handle)
        return self.keep(replace(handle, id=made, kind="stream", history=0, closes=False))

    def plain(self, handle: Handle) -> Handle:
        """A stream whose keys carry no window."""
        stream = self.as_stream(handle)
        if not stream.is_windowed:
            return stream
        made = self.add("select_key", stream, key_f="text")
        return self.keep(replace(stream, id=made, key="string", key_serde=""))

    def as_table(self, handle: Handle) -> Handle:
        """The handle, or a table of the stream."""
        if handle.kind == "table":
            return handle
        stream = self.plain(handle)
        store = self.store(stream.key, stream.value, forced=True)
        made = self.add("to_table", stream, store=store)
        return self.keep(
            replace(stream, id=made, kind="table", key_serde=stream.key, value_serde=stream.value)
        )

    def serializable(self, handle: Handle) -> Handle:
        """A table without windows whose serdes Java knows."""
        table = self.as_table(handle)
        if (
            is_known(table.key_serde, table.key)
            and is_known(table.value_serde, table.value)
            and not table.is_windowed
        ):
            return table
        return self.as_table(self.as_stream(table))

    # --- the end ---

    def finish(self) -> None:
        """A sink for what nothing reads."""
        for handle in list(self.handles):
            if handle.id in self.consumed or handle.kind == "global_table":
                continue
            if handle.kind == "table" and self.chance(0.1):
                continue
            stream = self.as_stream(handle)
            if self.chance(0.05):
                self.add("foreach", stream)
                continue
            where: dict[str, Any] = {"topic": f"out-{stream.id.replace('.', '-')}"}
            if self.chance(0.06):
                where = {"topics": ["out-even", "out-odd"]}
            key = None if is_known(stream.key_serde, stream.key) and self.chance(0.5) else stream.key
            value = None if is_known(stream.value_serde, stream.value) and self.chance(0.5) else stream.value
            self.add("to", stream, **where, key=key, value=value, keeps=self.keeps())
