"""Joins of a table with another by a foreign key in its values.

The left table registers each row under its foreign key at the right table (`SubscriptionSend`, through the
registration topic, to `SubscriptionReceive`). A registration is answered with the right row
(`SubscriptionJoin`), and so is every later change of that row (`ForeignTableJoin`). The left side joins the
answer with its row, if the row has not changed since it was registered (`ResponseJoin`, through the response
topic).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...clients.serdes import serializer
from ..records import Change, ValueAndTimestamp, ValueTimestampHeaders
from ..state.formats.foreign_keys import (
    CombinedKey,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionWrapper,
    combined_key,
    combined_key_prefix,
)
from ..state.formats.murmur3 import hash128
from .binding import BindingSupplier, BoundProcessor
from .table_store import operator_store

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ...clients.serdes import Serde
    from ..processing import Forward, Processor, ProcessorContext, ValueGetter, ValueGetterSupplier

TopicName = Callable[[], str]
"""The name of a topic, known once the application id is."""


class SubscriptionSendProcessorSupplier(BindingSupplier):
    """Sends the registrations of the left table. `foreign_key(key, value)` may return None: no partner."""

    def __init__(
        self,
        foreign_key: Callable[[Any, Any], Any],
        foreign_key_topic: TopicName,
        value_hash_topic: TopicName,
        foreign_key_serde: Any,
        value_serde: Any,
        left_join: bool,
    ) -> None:
        self.foreign_key = foreign_key
        self.foreign_key_topic = foreign_key_topic
        self.value_hash_topic = value_hash_topic
        self.foreign_key_serde = foreign_key_serde
        self.value_serde = value_serde
        self.left_join = left_join
        self.use_versioned_semantics = False

    def bind(self, context: ProcessorContext) -> Forward:
        forward, dropped, foreign_key = context.forward, context.dropped, self.foreign_key
        dumps_key = _serializer(context, self.foreign_key_serde, "key")
        dumps_value = _serializer(context, self.value_serde, "value")
        key_topic, value_topic = self.foreign_key_topic(), self.value_hash_topic()
        latest_only, left_join = self.use_versioned_semantics, self.left_join

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            new, old, is_latest = value
            if latest_only and not is_latest:
                dropped("not the latest version")
                return
            if new is None and old is None:
                return
            old_key = None if old is None else foreign_key(key, old)
            new_key = None if new is None else foreign_key(key, new)
            data = None if new is None else dumps_value(value_topic, new, headers)
            value_hash = None if data is None else hash128(data)
            metadata = context.record_metadata
            partition = -1 if metadata is None else metadata.partition

            def send(to_key: Any, instruction: Instruction) -> None:
                subscription = SubscriptionWrapper(value_hash, instruction, key, partition)
                forward(to_key, subscription, timestamp, headers)

            moved = old_key is not None and (
                new_key is None
                or dumps_key(key_topic, new_key, headers) != dumps_key(key_topic, old_key, headers)
            )
            if left_join:
                if moved:
                    send(old_key, Instruction.DELETE_KEY_NO_PROPAGATE)
                send(new_key, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
            elif new_key is None:
                if new is not None:
                    dropped("null foreign key")
                if old_key is not None:
                    send(old_key, Instruction.DELETE_KEY_AND_PROPAGATE)
            elif moved:
                send(old_key, Instruction.DELETE_KEY_NO_PROPAGATE)
                send(new_key, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
            else:
                send(new_key, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)

        return process


class SubscriptionReceiveProcessorSupplier(BindingSupplier):
    """Stores registrations at the right table, by (foreign key, primary key) in the bytes of `key_serdes`."""

    def __init__(self, subscription_store: Any, key_serdes: Any) -> None:
        self.subscription_store = subscription_store
        self.key_serdes = key_serdes

    def stores(self) -> tuple[Any, ...]:
        return (self.subscription_store,)

    def bind(self, context: ProcessorContext) -> Forward:
        forward, dropped = context.forward, context.dropped
        store = context.state_store(self.subscription_store.name)
        has_headers, get = store.has_headers, operator_store(context, store.name).get
        dumps = _combined_key(context, self.key_serdes).dumps
        null_key = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
        deletes = (Instruction.DELETE_KEY_AND_PROPAGATE, Instruction.DELETE_KEY_NO_PROPAGATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            subscription: SubscriptionWrapper[Any] = value
            if key is None and subscription.instruction is not null_key:
                dropped("null foreign key")
                return
            place = CombinedKey(key, subscription.primary_key)
            new, old = ValueAndTimestamp(subscription, timestamp), None
            if key is not None:
                data = dumps(place)
                old = get(data)
                if subscription.instruction in deletes:
                    store.delete(data)
                else:
                    store.put(data, ValueTimestampHeaders(*new, headers) if has_headers else new)
            forward(place, Change(new, old), timestamp, headers)

        return process


class SubscriptionJoinProcessorSupplier(BindingSupplier):
    """Answers a registration with the row of the right table."""

    def __init__(self, foreign_value_getter_supplier: ValueGetterSupplier) -> None:
        self.foreign_value_getter_supplier = foreign_value_getter_supplier

    def create(self) -> Processor:
        getter = self.foreign_value_getter_supplier.create()
        return BoundProcessor(lambda context: self._bind(context, getter), getter.close)

    @staticmethod
    def _bind(context: ProcessorContext, getter: ValueGetter) -> Forward:
        getter.init(context)
        forward, get = context.forward_changed, getter.get

        def process(key: Any, value: Any, _timestamp: int, headers: Headers) -> None:
            subscription, timestamp = value[0]
            found = None if key.foreign_key is None else get(key.foreign_key)
            row = None
            if found is not None:
                row = found[0]
                timestamp = max(timestamp, found[1])
            instruction = subscription.instruction
            if instruction is Instruction.DELETE_KEY_AND_PROPAGATE:
                row = None
            elif instruction is Instruction.DELETE_KEY_NO_PROPAGATE or (
                found is None and instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE
            ):
                return
            answer = SubscriptionResponseWrapper(subscription.hash, row, subscription.primary_partition)
            forward(key.primary_key, answer, timestamp, headers)

        return process


class ForeignTableJoinProcessorSupplier(BindingSupplier):
    """Sends a changed row of the right table to all registrations of its key."""

    def __init__(self, subscription_store: Any, key_serdes: Any) -> None:
        self.subscription_store = subscription_store
        self.key_serdes = key_serdes
        self.use_versioned_semantics = False

    def stores(self) -> tuple[Any, ...]:
        return (self.subscription_store,)

    def bind(self, context: ProcessorContext) -> Forward:
        forward, dropped, latest_only = context.forward, context.dropped, self.use_versioned_semantics
        store = operator_store(context, self.subscription_store.name)
        loads = _combined_key(context, self.key_serdes).loads
        dumps_foreign = context.resolve(self.key_serdes.foreign, "key").dumps

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                dropped("null key")
                return
            new, _, is_latest = value
            if latest_only and not is_latest:
                dropped("not the latest version")
                return
            with store.prefix_scan(combined_key_prefix(dumps_foreign(key))) as subscriptions:
                for place, (subscription, _) in subscriptions:
                    answer = SubscriptionResponseWrapper(
                        subscription.hash, new, subscription.primary_partition
                    )
                    forward(loads(place).primary_key, answer, timestamp, headers)

        return process


class ResponseJoinProcessorSupplier(BindingSupplier):
    """Joins an answer with the row of the left table. `joiner` takes (left value, right value)."""

    def __init__(
        self,
        value_getter_supplier: ValueGetterSupplier,
        value_serde: Any,
        value_hash_topic: TopicName,
        joiner: Callable[[Any, Any], Any],
        left_join: bool,
    ) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.value_serde = value_serde
        self.value_hash_topic = value_hash_topic
        self.joiner = joiner
        self.left_join = left_join

    def create(self) -> Processor:
        getter = self.value_getter_supplier.create()
        return BoundProcessor(lambda context: self._bind(context, getter), getter.close)

    def _bind(self, context: ProcessorContext, getter: ValueGetter) -> Forward:
        getter.init(context)
        forward, dropped, get, joiner = context.forward, context.dropped, getter.get, self.joiner
        dumps_value = _serializer(context, self.value_serde, "value")
        topic, left_join = self.value_hash_topic(), self.left_join

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            answer: SubscriptionResponseWrapper[Any] = value
            found = get(key)
            left, current = None, None
            if found is not None:
                left = found[0]
                data = dumps_value(topic, left, headers)
                current = None if data is None else hash128(data)
            if answer.original_value_hash != current:
                dropped("the row has changed since it was registered")
                return
            right = answer.foreign_value
            has_row = right is not None or (left_join and found is not None)
            forward(key, joiner(left, right) if has_row else None, timestamp, headers)

        return process


def _serializer(
    context: ProcessorContext, serde: Any, field: str
) -> Callable[[str, Any, Headers], bytes | None]:
    return serializer(context.resolve(serde, field), field)


def _combined_key(context: ProcessorContext, serdes: Any) -> Serde[CombinedKey]:
    return combined_key(context.resolve(serdes.foreign, "key"), context.resolve(serdes.primary, "key"))
