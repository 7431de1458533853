"""stream/errors.py: errors keep class, text and fields between processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from headrace.stream.errors import ProcessingError, StreamsError, TaskCorruptedError
from headrace.stream.records import TaskId
from headrace.stream.state import engines
from headrace.stream.topology.errors import Origin, TopologyError


def all_classes(base: type[Exception]) -> list[type[Exception]]:
    """A class and every class below it, those of stores included."""
    return [base, *(below for each in base.__subclasses__() for below in all_classes(each))]


ARGUMENTS: dict[type[Exception], tuple[Any, ...]] = {
    ProcessingError: ("0_1", "mapper", "orders", 3, 7),
    TaskCorruptedError: ("the store is ahead of its changelog", TaskId(0, 1)),
    TopologyError: ("no source", Origin("app.py", 7)),
}
assert engines.StateStoreError in all_classes(StreamsError)


@pytest.mark.parametrize("cls", [*all_classes(StreamsError), TopologyError])
@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_every_error_survives_pickling_and_copying(
    cls: type[Exception], copied: Callable[[Exception], Exception]
) -> None:
    """Class, text and fields; a class without an entry in ARGUMENTS takes one text."""
    error = cls(*ARGUMENTS.get(cls, ("folder /tmp/a",)))
    other = copied(error)
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
