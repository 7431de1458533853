"""Values that an async function of the user makes, many calls at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processing import Takes
from ..records import Record
from .binding import BindingSupplier

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from ..processing import CallPolicy, Forward, ProcessorContext


class KStreamMapValuesAsync(BindingSupplier):
    """Forwards the value that the async `mapper` returns, when its call has ended."""

    def __init__(self, mapper: Callable[..., Any], policy: CallPolicy, takes: Takes = Takes.VALUE) -> None:
        self.mapper = mapper
        self.policy = policy
        self.takes = takes

    def bind(self, context: ProcessorContext) -> Forward:
        add = context.open_calls(self.policy)
        mapper = self.mapper

        def by_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            add(mapper, (value,), key, value, timestamp, headers)

        def by_key_and_value(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            add(mapper, (key, value), key, value, timestamp, headers)

        def by_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            add(mapper, (Record(key, value, timestamp, headers),), key, value, timestamp, headers)

        return {Takes.VALUE: by_value, Takes.KEY_VALUE: by_key_and_value, Takes.RECORD: by_record}[self.takes]
