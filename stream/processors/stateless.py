"""Processors of a stream that keep no state."""

from __future__ import annotations

from operator import not_
from typing import TYPE_CHECKING, Any

from ..column_rows import Column, Rows
from ..processing import Takes
from ..records import Record
from .binding import BindingSupplier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...clients.records import Headers
    from ..column_rows import ProcessRows
    from ..processing import Forward, ProcessorContext

KeyValue = tuple[Any, Any]


def _pair(result: KeyValue) -> KeyValue:
    key, value = result
    return key, value


def applied(
    function: Callable[..., Any], takes: Takes, rows: Rows, convert: Callable[[Any], Any] | None = None
) -> tuple[list[Any], Exception | None]:
    """The results of `function`, given to `convert`, for the records up to the first that fails, and its
    error."""
    results: list[Any] = []
    columns = (rows.values.items,) if takes is Takes.VALUE else (rows.keys.items, rows.values.items)
    found = map(function, *columns)
    try:
        results.extend(found if convert is None else map(convert, found))
    except Exception as error:  # noqa: BLE001  # of the user's function; it is raised behind the others
        return results, error
    return results, None


def by_rows(
    context: ProcessorContext,
    function: Callable[..., Any],
    takes: Takes,
    forward: ProcessRows,
    result_of: Callable[[Rows, list[Any]], Rows],
    convert: Callable[[Any], Any] | None = None,
) -> ProcessRows | None:
    """Calls `function` for each record, then forwards `result_of` the records and their results, which
    `convert` has read. Records before one that fails are forwarded, as they are one by one. None for a
    function of whole records."""
    if takes is Takes.RECORD:
        return None

    def process_rows(rows: Rows) -> None:
        results, error = applied(function, takes, rows, convert)
        count = len(results)
        found = result_of(rows.first(count), results)
        if found.timestamps:
            forward(found)
        if error is not None:
            context.record_context = rows.contexts.items[count]
            raise error

    return process_rows


def of_record(function: Callable[..., Any], takes: Takes) -> Callable[[Any, Any, int, Headers], Any]:
    """`function` with the arguments of `process`."""
    if takes is Takes.VALUE:
        return lambda _key, value, _timestamp, _headers: function(value)
    if takes is Takes.KEY_VALUE:
        return lambda key, value, _timestamp, _headers: function(key, value)
    return lambda key, value, timestamp, headers: function(Record(key, value, timestamp, headers))


class KStreamFilter(BindingSupplier):
    """Forwards the records for which `predicate` is true; with `filter_not`, the others."""

    def __init__(
        self, predicate: Callable[..., Any], filter_not: bool = False, takes: Takes = Takes.KEY_VALUE
    ) -> None:
        self.predicate = predicate
        self.filter_not = filter_not
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        predicate = self.predicate
        filter_not = self.filter_not

        def by_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if predicate(value):
                forward(key, value, timestamp, headers)

        def by_key_and_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if predicate(key, value):
                forward(key, value, timestamp, headers)

        def by_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if bool(test(key, value, timestamp, headers)) != filter_not:
                forward(key, value, timestamp, headers)

        if not filter_not and self.takes is Takes.VALUE:
            return by_value
        if not filter_not and self.takes is Takes.KEY_VALUE:
            return by_key_and_value
        test = of_record(predicate, self.takes)
        return by_record

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        return by_rows(
            context, self.predicate, self.takes, forward, Rows.kept, not_ if self.filter_not else bool
        )


class KStreamMap(BindingSupplier):
    """Forwards the (key, value) that `mapper` returns."""

    def __init__(self, mapper: Callable[..., KeyValue], takes: Takes = Takes.KEY_VALUE) -> None:
        self.mapper = mapper
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        mapper = self.mapper

        def by_key_and_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            key, value = mapper(key, value)
            forward(key, value, timestamp, headers)

        def by_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            key, value = call(key, value, timestamp, headers)
            forward(key, value, timestamp, headers)

        if self.takes is Takes.KEY_VALUE:
            return by_key_and_value
        call = of_record(mapper, self.takes)
        return by_record

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        def mapped(rows: Rows, results: list[Any]) -> Rows:
            keys, values = [key for key, _ in results], [value for _, value in results]
            return rows._replace(keys=Column(keys), values=Column(values))

        return by_rows(context, self.mapper, self.takes, forward, mapped, _pair)


class KStreamSelectKey(BindingSupplier):
    """Forwards the value under the key that `mapper` returns (Java: a KStreamMap)."""

    def __init__(self, mapper: Callable[..., Any], takes: Takes = Takes.KEY_VALUE) -> None:
        self.mapper = mapper
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        mapper = self.mapper

        def by_key_and_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, value), value, timestamp, headers)

        def by_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(call(key, value, timestamp, headers), value, timestamp, headers)

        if self.takes is Takes.KEY_VALUE:
            return by_key_and_value
        call = of_record(mapper, self.takes)
        return by_record

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        def mapped(rows: Rows, results: list[Any]) -> Rows:
            return rows._replace(keys=Column(results))

        return by_rows(context, self.mapper, self.takes, forward, mapped)


class KStreamMapValues(BindingSupplier):
    """Forwards the value that `mapper` returns."""

    def __init__(self, mapper: Callable[..., Any], takes: Takes = Takes.KEY_VALUE) -> None:
        self.mapper = mapper
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        mapper = self.mapper

        def by_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(value), timestamp, headers)

        def by_key_and_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(key, value), timestamp, headers)

        def by_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, mapper(Record(key, value, timestamp, headers)), timestamp, headers)

        return {Takes.VALUE: by_value, Takes.KEY_VALUE: by_key_and_value, Takes.RECORD: by_record}[self.takes]

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        def mapped(rows: Rows, results: list[Any]) -> Rows:
            return rows._replace(values=Column(results))

        return by_rows(context, self.mapper, self.takes, forward, mapped)


class KStreamFlatMap(BindingSupplier):
    """Forwards each (key, value) that `mapper` returns."""

    def __init__(self, mapper: Callable[..., Iterable[KeyValue]], takes: Takes = Takes.KEY_VALUE) -> None:
        self.mapper = mapper
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        call = of_record(self.mapper, self.takes)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_key, new_value in call(key, value, timestamp, headers):
                forward(new_key, new_value, timestamp, headers)

        return process


class KStreamFlatMapValues(BindingSupplier):
    """Forwards each value that `mapper` returns."""

    def __init__(self, mapper: Callable[..., Iterable[Any]], takes: Takes = Takes.KEY_VALUE) -> None:
        self.mapper = mapper
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        call = of_record(self.mapper, self.takes)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for new_value in call(key, value, timestamp, headers):
                forward(key, new_value, timestamp, headers)

        return process


class KStreamPeek(BindingSupplier):
    """Calls `action` and forwards the record."""

    def __init__(self, action: Callable[..., object], takes: Takes = Takes.KEY_VALUE) -> None:
        self.action = action
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward
        call = of_record(self.action, self.takes)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            call(key, value, timestamp, headers)
            forward(key, value, timestamp, headers)

        return process


class KStreamForeach(BindingSupplier):
    """Calls `action`; the end of a branch (Java: ForeachProcessor, KStreamPrint)."""

    def __init__(self, action: Callable[..., object], takes: Takes = Takes.KEY_VALUE) -> None:
        self.action = action
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        return of_record(self.action, self.takes)


class KStreamBranch(BindingSupplier):
    """Forwards a record to the child of the first predicate that is true, or to the last child if there is
    one more child than predicates. The lists may grow until the topology is complete."""

    def __init__(
        self,
        predicates: Sequence[Callable[..., Any]],
        child_nodes: Sequence[str],
        takes: Takes = Takes.KEY_VALUE,
    ) -> None:
        self.predicates = predicates
        self.child_nodes = child_nodes
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        branches = [
            (of_record(predicate, self.takes), context.forward_of(child))
            for predicate, child in zip(self.predicates, self.child_nodes, strict=False)
        ]
        has_default = len(self.child_nodes) > len(self.predicates)
        default = context.forward_of(self.child_nodes[-1]) if has_default else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            for test, forward in branches:
                if test(key, value, timestamp, headers):
                    forward(key, value, timestamp, headers)
                    return
            if default is not None:
                default(key, value, timestamp, headers)

        return process


class PassThrough(BindingSupplier):
    """Forwards every record: merge, and the end of a stream-stream join."""

    def bind(self, context: ProcessorContext) -> Forward:
        return context.forward

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        return forward


class KTableToStream(BindingSupplier):
    """Forwards the new value of each change (Java: a KStreamMapValues)."""

    def bind(self, context: ProcessorContext) -> Forward:
        forward = context.forward

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value[0], timestamp, headers)

        return process

    def bind_rows(self, context: ProcessorContext, forward: ProcessRows) -> ProcessRows | None:
        return forward
