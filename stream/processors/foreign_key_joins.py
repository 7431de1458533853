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

from .binding import BindingSupplier

if TYPE_CHECKING:
    from ..processing import ValueGetterSupplier

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


class SubscriptionReceiveProcessorSupplier(BindingSupplier):
    """Stores registrations at the right table, by (foreign key, primary key) in the bytes of `key_schema`."""

    def __init__(self, subscription_store: Any, key_schema: Any) -> None:
        self.subscription_store = subscription_store
        self.key_schema = key_schema

    def stores(self) -> tuple[Any, ...]:
        return (self.subscription_store,)


class SubscriptionJoinProcessorSupplier(BindingSupplier):
    """Answers a registration with the row of the right table."""

    def __init__(self, foreign_value_getter_supplier: ValueGetterSupplier) -> None:
        self.foreign_value_getter_supplier = foreign_value_getter_supplier


class ForeignTableJoinProcessorSupplier(BindingSupplier):
    """Sends a changed row of the right table to all registrations of its key."""

    def __init__(self, subscription_store: Any, key_schema: Any) -> None:
        self.subscription_store = subscription_store
        self.key_schema = key_schema
        self.use_versioned_semantics = False

    def stores(self) -> tuple[Any, ...]:
        return (self.subscription_store,)


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
