"""Aggregations by named aggregates: `aggregate(total=Sum(...), n=Count())`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processors.aggregate_functions import Aggregate
from ..processors.named_aggregates import NamedAggregates
from ..state.formats.rows import rows
from ..topology.errors import TopologyError
from .aggregations import Aggregation
from .stores import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .stores import StoreArgument


def aggregation(
    functions: Mapping[str, Callable[..., Any] | None],
    aggregates: Mapping[str, Aggregate[Any]],
    value: Any,
    store: StoreArgument,
    name: str | None,
) -> Aggregation:
    """What `aggregate` of a stream computes: by the functions of the user, or by named aggregates.

    `functions`: the parameters of the form with functions. `value`: the serde of rows. Errors: TopologyError
    unless it is exactly one form, and a complete one.
    """
    check_options(value=value, store=store, name=name)
    if not aggregates:
        require(functions, value)
        return Aggregation(**functions)  # type: ignore[arg-type]  # complete
    refuse(functions)
    named = checked(aggregates, store)
    return Aggregation(
        named.initializer,
        named.aggregator(),
        named.merge,
        value=named.serde(),
        rows=rows_serde(value),
        named=named,
    )


def require(functions: Mapping[str, Callable[..., Any] | None], value: Any) -> None:
    """Errors: TopologyError if a function of the user is missing, or for `value`."""
    if None in functions.values():
        raise TopologyError(
            f"aggregate needs {', '.join(functions)}; or aggregates with names, such as total=Sum(...)"
        )
    if value is not None:
        raise TopologyError("value= is for named aggregates: other results have the serde of store=")


def refuse(functions: Mapping[str, Callable[..., Any] | None]) -> None:
    """Errors: TopologyError for functions beside named aggregates."""
    given = [name for name, function in functions.items() if function is not None]
    if given:
        raise TopologyError(
            f"named aggregates exclude {', '.join(given)}, which are functions of the other form of aggregate"
        )


def check_options(**options: Any) -> None:
    """Errors: TopologyError for an aggregate under the name of an option."""
    for name, option in options.items():
        if isinstance(option, Aggregate):
            raise TopologyError(f"{name}= is an option of the operator: give the aggregate another name")


def rows_serde(value: Any) -> Any:
    """The serde of rows in topics."""
    return rows if value is None else value


def checked(aggregates: Mapping[str, Any], store: StoreArgument) -> NamedAggregates:
    """The aggregates of a row. Errors: TopologyError for something else, and for a store with a serde."""
    check_aggregates(aggregates)
    if isinstance(store, Store) and store.value is not None:
        raise TopologyError("the store of named aggregates has a format of its own: value= is for their rows")
    return NamedAggregates(aggregates)


def check_aggregates(aggregates: Mapping[str, Any]) -> None:
    """Errors: TopologyError for something else."""
    for name, each in aggregates.items():
        if not isinstance(each, Aggregate):
            hint = f": call it, {name}={each.__name__}()" if isinstance(each, type) else ""
            raise TopologyError(
                f"{name}= must be an aggregate, such as Sum(...) or Count(), not {each!r}{hint}"
            )


def invertible(aggregates: Mapping[str, Any], store: StoreArgument) -> NamedAggregates:
    """Those of a grouped table, whose rows can be taken away. Errors: TopologyError, as `checked`."""
    named = checked(aggregates, store)
    for name, each in aggregates.items():
        if each.subtract is None:
            raise TopologyError(
                f"{name}={type(each).__name__} cannot take a value away, which a table needs when "
                "a row changes: use Count, Sum or Mean, or aggregate a stream"
            )
    return named
