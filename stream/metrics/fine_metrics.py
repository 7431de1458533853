"""The metrics of nodes, topics, stores and record caches of a task (KIP-444, KIP-613, KIP-471). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .names import NODE, RECORD_CACHE, STATE, TOPIC, MetricName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...clients.measured import Measured
    from .measures import NodeMeasures, StoreMeasures, TaskMeasures, TopicMeasures
    from .names import Tags

Value = tuple[MetricName, float]

RATES = {
    f"{name}-total": f"{name}-rate"
    for name in (
        "bytes-written",
        "bytes-read",
        "memtable-bytes-flushed",
        "bytes-written-compaction",
        "bytes-read-compaction",
    )
}
"""Kafka's rates of RocksDB's statistics, by the name of the total."""


class StoreSource(NamedTuple):
    """Of a store. `numbers`: properties and statistics of its files by Kafka's names."""

    scope: str
    open_iterators: int = 0
    numbers: Mapping[str, float] = {}


class FineSource(NamedTuple):
    """Of a task; `measures` None: metrics.recording.level is INFO."""

    measures: TaskMeasures | None
    stores: Mapping[str, StoreSource]


def fine_metrics(source: FineSource, of_task: Tags, now_ms: int) -> Iterator[Value]:
    """Of a task with these tags."""
    for name, store in source.stores.items():
        tags = (*of_task, (f"{store.scope}-state-id", name))
        yield MetricName("num-open-iterators", STATE, tags), store.open_iterators
        for number, value in store.numbers.items():
            yield MetricName(number, STATE, tags), value
    measures = source.measures
    if measures is None:
        return
    for name, node in list(measures.nodes.items()):
        yield from _node(node, (*of_task, ("processor-node-id", name)), now_ms)
    for verb, topics in (("consumed", measures.consumed), ("produced", measures.produced)):
        for (name, topic), counted in list(topics.items()):
            tags = (*of_task, ("processor-node-id", name), ("topic-name", topic))
            yield from _topic(verb, counted, tags)
    for name, measured in list(measures.stores.items()):
        scope = source.stores[name].scope if name in source.stores else "in-memory"
        of_store = (*of_task, (f"{scope}-state-id", name))
        yield from _store(measured, of_store, now_ms)
        numbers = source.stores[name].numbers if name in source.stores else {}
        for total, rate in RATES.items():
            if total in numbers:
                per_second = measured.totals.per_second(total, numbers[total], now_ms)
                yield MetricName(rate, STATE, of_store), per_second
        if measured.hit_ratio is not None:
            tags = (*of_task, ("record-cache-id", name))
            yield from _spread("hit-ratio", RECORD_CACHE, measured.hit_ratio, tags, now_ms)


def _node(node: NodeMeasures, tags: Tags, now_ms: int) -> Iterator[Value]:
    yield from _counted("process", NODE, node.process, tags, now_ms)
    if node.emitted is not None:
        yield from _counted("suppression-emit", NODE, node.emitted, tags, now_ms)
    if node.latency is not None and node.latency.total:
        yield from _spread("record-e2e-latency", NODE, node.latency, tags, now_ms)


def _topic(verb: str, counted: TopicMeasures, tags: Tags) -> Iterator[Value]:
    yield MetricName(f"records-{verb}-total", TOPIC, tags), counted.records
    yield MetricName(f"bytes-{verb}-total", TOPIC, tags), counted.bytes


def _store(store: StoreMeasures, tags: Tags, now_ms: int) -> Iterator[Value]:
    for operation, measured in list(store.operations.items()):
        yield MetricName(f"{operation}-rate", STATE, tags), measured.per_second(now_ms)
        yield MetricName(f"{operation}-latency-avg", STATE, tags), measured.average_ms(now_ms)
        yield MetricName(f"{operation}-latency-max", STATE, tags), measured.highest_ms(now_ms)
    if store.iterators.total or store.open_since_ms:
        yield MetricName("iterator-duration-avg", STATE, tags), store.iterators.average_ms(now_ms)
        yield MetricName("iterator-duration-max", STATE, tags), store.iterators.highest_ms(now_ms)
    since_ms = next(iter(list(store.open_since_ms.values())), None)
    if since_ms is not None:
        yield MetricName("oldest-iterator-open-since-ms", STATE, tags), since_ms
    buffers = {"suppression-buffer-size": store.buffer_size, "suppression-buffer-count": store.buffer_count}
    for name, gauge in buffers.items():
        if gauge is not None:
            yield MetricName(f"{name}-avg", STATE, tags), gauge.average_ms(now_ms)
            yield MetricName(f"{name}-max", STATE, tags), gauge.highest_ms(now_ms)


def _counted(name: str, group: str, measured: Measured, tags: Tags, now_ms: int) -> Iterator[Value]:
    yield MetricName(f"{name}-rate", group, tags), measured.per_second(now_ms)
    yield MetricName(f"{name}-total", group, tags), measured.total


def _spread(name: str, group: str, measured: Measured, tags: Tags, now_ms: int) -> Iterator[Value]:
    yield MetricName(f"{name}-avg", group, tags), measured.average_ms(now_ms)
    yield MetricName(f"{name}-min", group, tags), measured.lowest_ms(now_ms)
    yield MetricName(f"{name}-max", group, tags), measured.highest_ms(now_ms)
