"""How a supplier makes the processor of a task: a function that is bound to the context of its node once, in
`init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import Forward, Processor, ProcessorContext


def _nothing() -> None:
    pass


class BoundProcessor:
    """A processor whose `process` is made by `bind(context)`: a closure reads its variables faster than
    attributes."""

    __slots__ = ("_bind", "_close", "process")

    process: Forward

    def __init__(
        self, bind: Callable[[ProcessorContext], Forward], close: Callable[[], None] = _nothing
    ) -> None:
        self._bind = bind
        self._close = close

    def init(self, context: ProcessorContext) -> None:
        self.process = self._bind(context)

    def close(self) -> None:
        self._close()


class BindingSupplier:
    """A supplier whose processors are made by its method `bind`."""

    def create(self) -> Processor:
        return BoundProcessor(self.bind)

    def bind(self, context: ProcessorContext) -> Forward:
        """The `process` of one task. Children are initialized before their parents, so `context.forward` is
        ready."""
        raise NotImplementedError

    def stores(self) -> tuple[Any, ...]:
        return ()
