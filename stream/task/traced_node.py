"""A source node whose sampled records are processed inside spans. Pure: the caller makes the spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from .run_rows import process_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ...clients.records import Headers
    from ..processing import InputRun
    from .current_record import CurrentRecord
    from .nodes import Node

    # What is around the processing of an input record; cheap for records that are not sampled.
    AroundRecord: TypeAlias = Callable[[Any], AbstractContextManager[Any]]


def traced_node(node: Node, around: AroundRecord, current: CurrentRecord) -> Node:
    """The node with spans. Runs whose records have headers are processed record by record."""
    process_one, process_all = node.process, node.process_run

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if headers:
            with around(current.source):
                process_one(key, value, timestamp, headers)
        else:
            process_one(key, value, timestamp, headers)

    def process_run(run: InputRun) -> None:
        if run.has_headers():
            process_each(run, process)
        elif process_all is None:
            process_each(run, process_one)
        else:
            process_all(run)

    return node._replace(process=process, process_run=process_run)
