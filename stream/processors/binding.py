"""How a supplier makes the processor of a task: a function that is bound to the context of its node once, in
`init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..column_rows import ProcessRows
    from ..processing import Forward, Processor, ProcessorContext, ProcessRun

    Bound = Forward | tuple[Forward, ProcessRun | None]


def _nothing() -> None:
    pass


def _no_rows(_context: ProcessorContext, _forward: ProcessRows) -> ProcessRows | None:
    return None


class BoundProcessor:
    """A processor whose `process` is made by `bind(context)`: a closure reads its variables faster than
    attributes."""

    __slots__ = ("_bind", "_bind_rows", "_close", "process", "process_rows", "process_run")

    process: Forward
    process_rows: ProcessRows | None
    process_run: ProcessRun | None

    def __init__(
        self,
        bind: Callable[[ProcessorContext], Bound],
        close: Callable[[], None] = _nothing,
        bind_rows: Callable[[ProcessorContext, ProcessRows], ProcessRows | None] = _no_rows,
    ) -> None:
        self._bind = bind
        self._bind_rows = bind_rows
        self._close = close

    def init(self, context: ProcessorContext) -> None:
        bound = self._bind(context)
        self.process, self.process_run = bound if isinstance(bound, tuple) else (bound, None)
        forward_rows = context.forward_rows
        self.process_rows = None if forward_rows is None else self._bind_rows(context, forward_rows)

    def close(self) -> None:
        self._close()


class BindingSupplier:
    """A supplier whose processors are made by its method `bind`."""

    def create(self) -> Processor:
        return BoundProcessor(self.bind, bind_rows=self.bind_rows)

    def bind(self, context: ProcessorContext) -> Bound:
        """The `process` of one task, and a `process_run` if it has one. Children are initialized before their
        parents, so `context.forward` is ready."""
        raise NotImplementedError

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        """The `process_rows` of one task, which passes records on to `forward`; None: it has none."""
        return None

    def stores(self) -> tuple[Any, ...]:
        return ()
