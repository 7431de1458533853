"""Rows of named aggregates: as results in topics, as states in stores and changelogs; MessagePack maps.

A state is stored under "name:kind", so that a program may add aggregates, or leave some out, and go on with
its stores: an aggregate that a stored row does not have begins without values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....clients.serdes import Serde
from ...records import Row
from . import plain_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _dump_row(row: Row) -> bytes:
    return plain_values.dumps(dict(row) if type(row) is Row else row)  # of a dict: without `_extension`


rows: Serde[Row] = Serde("rows", _dump_row, lambda data: Row(plain_values.loads(data)))


def states(tags: Sequence[str], empty: Sequence[Any]) -> Serde[Sequence[Any]]:
    """The serde of states in a store. `tags`: "name:kind" of each aggregate."""
    dumps, loads = plain_values.dumps, plain_values.loads
    pairs = tuple(zip(tags, empty, strict=True))

    def dump(found: Sequence[Any]) -> bytes:
        return dumps(dict(zip(tags, found)))  # noqa: B905  # one state each; this runs per record

    def load(data: bytes) -> Sequence[Any]:
        stored = loads(data)
        return [stored.get(tag, nothing) for tag, nothing in pairs]

    return Serde("states", dump, load)


def stored_rows(of_states: Serde[Sequence[Any]], make_row: Callable[[Sequence[Any]], Row]) -> Serde[Row]:
    """The serde of rows in a store: `make_row` adds the results to states."""
    dumps, loads = of_states.dumps, of_states.loads
    return Serde("states of rows", lambda row: dumps(row.states), lambda data: make_row(loads(data)))
