"""Operators with parts of the Processor API: `Topology.add_*`, global and read-only stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .cases import Node
from .generator import Generator, Handle
from .stream_operators import BEHAVIOURS, behaviour, processor_store, punctuation


def global_store(g: Generator, handle: Handle) -> Handle:
    """A processor that reads a global store, of the DSL or of the Processor API."""
    stream = g.plain(handle)
    store = filled_store(g, stream.key, "global")
    made = g.add("process", stream, processor="lookup", looks_up=store)
    return g.keep(Handle(made, "stream", stream.key, "string", "", ""))


def filled_store(g: Generator, key: str, kind: str) -> str:
    """Add a store that a processor fills from a topic of its own: its name.

    `kind`: global, or read_only.
    """
    topic, value = g.topic(key, g.pick(("string", "long")))
    value_f, kept = g.mapper(value)
    store: Node = {"name": g.name("state"), "kind": "kv", "key": key, "value": kept}
    store["supplier"] = g.pick(("memory", "persistent"))
    if kind == "global" and g.chance(0.9):  # Kafka refuses one with a changelog of its own
        store["logged"] = False
    op = f"add_{kind}_store"
    if kind == "global" and g.chance(0.5):
        op = "global_store"
    fields: dict[str, Any] = {
        "topic": topic,
        "key": g.fitting_serde("", key),
        "value": g.fitting_serde("", value),
        "shift": g.shift(),
        "value_f": value_f,
        "uses": store,
    }
    g.add(op, named=op == "global_store", **fields)
    return str(store["name"])


class Part:
    """Nodes of the Processor API between two topics, so that they may stand anywhere."""

    def __init__(self, g: Generator, stream: Handle) -> None:
        self.g = g
        self.key = stream.key
        self.value = stream.value
        begin, _ = g.topic(stream.key, stream.value, is_fed=g.chance(0.3))
        g.add("to", stream, topic=begin, key=stream.key, value=stream.value)
        self.ends = [self._source(begin)]
        self.shared: Node | None = None  # a store that a processor before uses, and how
        self.how = ""

    def _source(self, topic: str) -> str:
        g = self.g
        where = {"pattern": topic + ".*"} if g.chance(0.1) and topic in g.topics else {"topics": [topic]}
        serdes = {"key": g.fitting_serde("", self.key), "value": g.fitting_serde("", self.value)}
        return g.add(
            "add_source", named=False, **where, **serdes, shift=g.shift(), reset=g.maybe(0.1, "earliest")
        )

    def another_source(self) -> None:
        """The following node reads a second topic as well."""
        topic, _ = self.g.topic(self.key, self.value)
        self.ends = [*self.ends, self._source(topic)]

    def processor(self) -> None:
        """A processor behind the nodes before."""
        g = self.g
        name = behaviour(g, "lookup", "lookup", "child", "child")
        if self.shared is not None and g.chance(0.5):
            name = self.how
        fields: dict[str, Any] = {"processor": name, "punctuate": g.maybe(0.3, punctuation(g))}
        forwarded = self.value
        if name == "lookup":
            kind = g.pick(("global", "read_only"))
            fields["looks_up"] = filled_store(g, self.key, kind)
            fields["connects"] = g.maybe(1.0 if kind == "read_only" else 0.0, value=True)
            forwarded = "string"
        elif name != "child":
            kinds, kept, forwarded = BEHAVIOURS[name]
            forwarded = forwarded or self.value
            fields |= self._store(name, kinds, kept or self.value)
        self.ends = [g.add("add_processor", named=False, parents=self.ends, **fields)]
        if name == "child":
            node = g.nodes[-1]
            node["children"] = [
                g.add("add_processor", named=False, parents=self.ends, processor=each)
                for each in ("headers", g.pick(("commit", "headers")))
            ]
            self.ends = [*node["children"]]
        self.value = forwarded

    def _store(self, name: str, kinds: tuple[str, ...], value: str) -> dict[str, Any]:
        """The store of a processor: its own, or one of the same behaviour and types before it."""
        g = self.g
        if not kinds:
            return {}
        if self.shared is not None and self.how == name and self.shared["value"] == value:
            return {"uses": {"name": self.shared["name"]}}
        store = processor_store(g, kinds[0], self.key, value)
        self.shared, self.how = store, name
        return {"uses": store, "adds": g.pick(("provided", "given", "added", "connected"))}

    def sink(self) -> Handle:
        """To a topic, which a stream reads."""
        g = self.g
        serdes = {"key": g.fitting_serde("", self.key), "value": g.fitting_serde("", self.value)}
        if g.chance(0.2):
            topics = ["out-even", "out-odd"]
            g.add("add_sink", named=False, parents=self.ends[-1:], topics=topics, **serdes)
        end, _ = g.topic(self.key, self.value, is_fed=False)
        g.add("add_sink", named=False, parents=self.ends, topic=end, keeps=g.keeps(), **serdes)
        given = {"key": g.serde("", self.key), "value": g.serde("", self.value)}
        made = g.add("stream", topics=[end], **given)
        return Handle(made, "stream", self.key, self.value, given["key"] or "", given["value"] or "")


def topology(g: Generator, handle: Handle) -> Handle:
    """Nodes of `Topology.add_*`."""
    part = Part(g, g.plain(handle))
    for _ in range(g.pick((1, 1, 2, 3))):
        if g.chance(0.3):
            part.another_source()
        part.processor()
    return g.keep(part.sink())


def terminal(op: str) -> Any:
    """foreach, print and to: the stream goes on beside it."""

    def apply(g: Generator, handle: Handle) -> Handle:
        stream = g.as_stream(handle)
        fields: dict[str, Any] = {}
        if op == "print":
            fields = {"label": g.maybe(0.5, "label"), "value_f": g.pick(("text", "labelled", "upper"))}
        elif op == "to":
            fields = {"topics": ["out-even", "out-odd"]} if g.chance(0.3) else {"topic": g.name("out")}
            fields |= {"key": stream.key, "value": stream.value, "keeps": g.keeps()}
        g.add(op, stream, **fields)
        return replace(stream)

    return apply
