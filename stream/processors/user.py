"""Processors of users: the Processor API of Kafka Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..processing import Processor, ProcessorSupplier

UserProcessor = Any
"""A class or function that makes a processor, a supplier, or a generator function of a record."""


class UserProcessorSupplier:
    """Adapts processors with `process(record)` to the interface of tasks.

    `factory` makes one for each task; `stores` of it makes the builders of the stores that it brings.
    """

    def __init__(self, factory: UserProcessor, *, fixed_key: bool = False) -> None:
        self.factory = factory
        self.fixed_key = fixed_key
        stores = getattr(factory, "stores", None)
        self._stores = tuple(stores()) if callable(stores) else ()

    def create(self) -> Processor:
        """A processor of one task."""
        raise NotImplementedError

    def stores(self) -> tuple[Any, ...]:
        """The builders of stores that `factory` brings."""
        return self._stores


def user_supplier(processor: UserProcessor, *, fixed_key: bool = False) -> ProcessorSupplier:
    """A supplier for what a user passed. Suppliers of the package stay as they are."""
    if isinstance(processor, UserProcessorSupplier) or hasattr(processor, "bind"):
        return cast("ProcessorSupplier", processor)
    return UserProcessorSupplier(processor, fixed_key=fixed_key)
