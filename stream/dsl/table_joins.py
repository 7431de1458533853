"""Joins of tables by key, and by foreign key. Source: KTableImpl.doJoin, KTableImpl.doJoinOnForeignKey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.serdes import bytes_
from ..processors.foreign_key_joins import (
    ForeignTableJoinProcessorSupplier,
    ResponseJoinProcessorSupplier,
    SubscriptionJoinProcessorSupplier,
    SubscriptionReceiveProcessorSupplier,
    SubscriptionSendProcessorSupplier,
)
from ..processors.table_joins import (
    KTableKTableInnerJoin,
    KTableKTableJoinMerger,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)
from ..processors.tables import KTableSource
from ..state.builders import StoreBuilder
from ..state.formats.foreign_keys import subscription_response_wrapper, subscription_wrapper
from ..state.store_spec import StoreKind
from ..topology.serdes import CombinedKeySerdes, DerivedSerde
from .graph import ProcessorNode, SinkNode, SourceNode, TableTableJoinNode, VersionedProcessorNode
from .handles import TableHandle
from .stores import Materialized, StoreArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..topology.specs import Partitioner
    from .graph import GraphNode


def joined(
    left: TableHandle,
    right: TableHandle,
    joiner: Callable[[Any, Any], Any],
    *,
    foreign_key: Callable[..., Any] | None = None,
    with_key: bool = False,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    how: str = "inner",
    store: StoreArgument = None,
    name: str | None = None,
) -> TableHandle:
    """The rows of both tables by key, or by `foreign_key`. Errors: ValueError for forms that do not exist."""
    if how not in ("inner", "left", "outer"):
        raise ValueError(f'how must be "inner", "left" or "outer", not {how!r}')
    if foreign_key is None:
        keeps_left, keeps_right = how != "inner", how == "outer"
        return join_tables(
            left, right, joiner, keeps_left=keeps_left, keeps_right=keeps_right, store=store, name=name
        )
    if how == "outer":
        raise ValueError("a join by foreign key has no outer form")
    join = ForeignKeyJoin(
        left,
        right,
        is_left=how == "left",
        name=name,
        partitioner=partitioner,
        other_partitioner=other_partitioner,
    )
    of_value = foreign_key
    extract = foreign_key if with_key else lambda _key, value: of_value(value)
    return join.add(extract, joiner, store)


def join_tables(
    left: TableHandle,
    right: TableHandle,
    joiner: Callable[[Any, Any], Any],
    *,
    keeps_left: bool,
    keeps_right: bool,
    store: StoreArgument,
    name: str | None,
) -> TableHandle:
    """A row for each key of both tables; with `keeps_*` also for those of one alone."""
    graph = left.graph
    materialized = None if store is None else Materialized(graph, store, "KTABLE-MERGE-")
    merge_name = graph.names.given_or(name, "KTABLE-MERGE-")
    sources = left.copartition_with(right)
    if keeps_left:
        left.enable_sending_old_values(True)
    if keeps_right:
        right.enable_sending_old_values(True)
    builder = None
    if materialized is not None:
        materialized.default_serdes(left.key)
        builder = materialized.key_value()

    def reverse(value: Any, other: Any) -> Any:
        return joiner(other, value)

    join_left: Any
    join_right: Any
    if keeps_right:
        join_left = KTableKTableOuterJoin(left, right, joiner)
        join_right = KTableKTableOuterJoin(right, left, reverse)
    elif keeps_left:
        join_left = KTableKTableLeftJoin(left, right, joiner)
        join_right = KTableKTableRightJoin(right, left, reverse)
    else:
        join_left = KTableKTableInnerJoin(left, right, joiner)
        join_right = KTableKTableInnerJoin(right, left, reverse)
    left_name = graph.names.suffixed_or(name, "-join-this", "KTABLE-JOINTHIS-")
    right_name = graph.names.suffixed_or(name, "-join-other", "KTABLE-JOINOTHER-")
    merger = KTableKTableJoinMerger(join_left, join_right, builder)
    node = TableTableJoinNode(
        merge_name,
        [
            (left_name, join_left, left.name, right.store_names),
            (right_name, join_right, right.name, left.store_names),
        ],
        merger,
    )
    node.is_output_versioned = materialized is not None and materialized.is_versioned
    graph.add(node, left.node)
    graph.add(node, right.node)
    return TableHandle(
        graph,
        merge_name,
        node,
        sources,
        left.key if materialized is None else materialized.key,
        None if materialized is None else materialized.value,
        merger,
        None if materialized is None else materialized.name,
    )


class ForeignKeyJoin:
    """Names and nodes of one join by foreign key.

    The left table sends a subscription for each row to the partition of its foreign key; there it is stored
    and answered; the answers return to the partition of the left key.
    """

    def __init__(
        self,
        left: TableHandle,
        right: TableHandle,
        *,
        is_left: bool,
        name: str | None,
        partitioner: Partitioner | None,
        other_partitioner: Partitioner | None,
    ) -> None:
        self.graph = left.graph
        self.left = left
        self.right = right
        self.is_left = is_left
        self.name = name
        self.partitioner = partitioner
        self.other_partitioner = other_partitioner

    def add(
        self, foreign_key: Callable[[Any, Any], Any], joiner: Callable[[Any, Any], Any], store: StoreArgument
    ) -> TableHandle:
        """The joined table."""
        left, right, graph = self.left, self.right, self.graph
        right.enable_sending_old_values(True)
        left.enable_sending_old_values(True)
        topic = self._named("-subscription-registration", "SUBSCRIPTION-REGISTRATION-") + "-topic"
        graph.topology.add_internal_topic(topic)
        value_hash_topic = self._pseudo_topic(f"{topic}-vh")
        send = VersionedProcessorNode(
            self._named("-subscription-registration-processor", "SUBSCRIPTION-REGISTRATION-"),
            SubscriptionSendProcessorSupplier(
                foreign_key,
                self._pseudo_topic(f"{topic}-fk"),
                value_hash_topic,
                right.key,
                left.value,
                self.is_left,
            ),
        )
        graph.add(send, left.node)
        answers = self._answers(*self._subscriptions(send, topic))
        sources = left.sources | {answers.name}
        graph.topology.copartition(sources)
        getters = left.value_getter_supplier()
        resolver = ProcessorNode(
            self._named("-subscription-response-resolver", "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
            ResponseJoinProcessorSupplier(getters, left.value, value_hash_topic, joiner, self.is_left),
            getters.store_names(),
        )
        graph.add(resolver, answers)
        result_name = self._named("-result", "OUTPUT-")
        materialized = Materialized(graph, store, "KTABLE-FK-JOIN-OUTPUT-")
        materialized.default_serdes(left.key)
        supplier = KTableSource(materialized.key_value(), materialized.is_queryable)
        result = ProcessorNode(result_name, supplier)
        result.is_output_versioned = materialized.is_versioned
        graph.add(result, resolver)
        return TableHandle(
            graph, result_name, result, sources, left.key, materialized.value, supplier, materialized.name
        )

    def _subscriptions(self, send: GraphNode, topic: str) -> tuple[GraphNode, GraphNode]:
        """The nodes that answer subscriptions, and changes of the right table."""
        left, right, graph = self.left, self.right, self.graph
        subscription = DerivedSerde(subscription_wrapper, (("key", left.key),))
        sink = self._sink(
            "-subscription-registration-sink", topic, right.key, subscription, _single(self.other_partitioner)
        )
        graph.add(sink, send)
        source = self._source("-subscription-registration-source", topic, right.key, subscription)
        graph.add(source, sink)
        graph.topology.copartition(right.sources | {source.name})
        supplier = graph.store_supplier
        has_headers = graph.stores_have_headers and graph.stores_are_persistent and supplier is None
        store = StoreBuilder(
            self._named("-subscription-store", "SUBSCRIPTION-STATE-STORE-"),
            StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS if has_headers else StoreKind.TIMESTAMPED_KEY_VALUE,
            logs_headers=True,
            key_serde=bytes_,
            value_serde=subscription,
            persistent=graph.stores_are_persistent,
            supplier=supplier,
        )
        keys = CombinedKeySerdes(right.key, left.key)
        receive = ProcessorNode(
            self._named("-subscription-receive", "SUBSCRIPTION-PROCESSOR-"),
            SubscriptionReceiveProcessorSupplier(store, keys),
        )
        graph.add(receive, source)
        getters = right.value_getter_supplier()
        join = ProcessorNode(
            self._named("-subscription-join-foreign", "SUBSCRIPTION-PROCESSOR-"),
            SubscriptionJoinProcessorSupplier(getters),
            getters.store_names(),
        )
        graph.add(join, receive)
        changes = VersionedProcessorNode(
            self._named("-foreign-join-subscription", "SUBSCRIPTION-PROCESSOR-"),
            ForeignTableJoinProcessorSupplier(store, keys),
        )
        graph.add(changes, right.node)
        return join, changes

    def _answers(self, *answering: GraphNode) -> GraphNode:
        """The source of the answers, through a topic that is partitioned like the left table."""
        left, graph = self.left, self.graph
        topic = self._named("-subscription-response", "SUBSCRIPTION-RESPONSE-") + "-topic"
        graph.topology.add_internal_topic(topic)
        response = DerivedSerde(subscription_response_wrapper, (("value", self.right.value),))
        partitioner = _single(self.partitioner) or _to_subscriber
        sink = self._sink("-subscription-response-sink", topic, left.key, response, partitioner)
        graph.add(sink, *answering)
        source = self._source("-subscription-response-source", topic, left.key, response)
        graph.add(source, sink)
        return source

    def _named(self, suffix: str, prefix: str) -> str:
        return self.graph.names.suffixed_or(self.name, suffix, f"KTABLE-FK-JOIN-{prefix}")

    def _sink(
        self, suffix: str, topic: str, key: Any, value: Any, partitioner: Partitioner | None
    ) -> SinkNode:
        name = self.graph.names.suffixed_or(self.name, suffix, "KTABLE-SINK-")
        return SinkNode(name, topic, key=key, value=value, partitioner=partitioner)

    def _source(self, suffix: str, topic: str, key: Any, value: Any) -> SourceNode:
        name = self.graph.names.suffixed_or(self.name, suffix, "KTABLE-SOURCE-")
        return SourceNode(name, [topic], key=key, value=value)

    def _pseudo_topic(self, topic: str) -> Callable[[], str]:
        """The full name of a topic that exists for serdes alone."""
        topology = self.graph.topology
        return lambda: topology.internal_name(topic)


def _single(partitioner: Partitioner | None) -> Partitioner | None:
    """The user's partitioner. It gets no value, and must choose one partition or leave it to the default."""
    if partitioner is None:
        return None

    def choose(topic: str, key: Any, _value: Any, count: int) -> int | None:
        chosen = partitioner(topic, key, None, count)
        if chosen is None or isinstance(chosen, int):
            return chosen
        if len(chosen) != 1:
            raise ValueError(f"the partitioner of a foreign-key join must choose one partition, not {chosen}")
        return next(iter(chosen))

    return choose


def _to_subscriber(_topic: str, _key: Any, value: Any, _count: int) -> int | None:
    partition: int | None = value.primary_partition
    return partition
