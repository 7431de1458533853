"""stream/errors.py: errors keep class, text and fields between processes."""

import pickle

import pytest
from headrace.stream import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.StateDirectoryError("folder"),
        errors.InternalTopicError("orders"),
        errors.TaskMigratedError("0_1"),
        errors.TaskCorruptedError("0_1"),
        errors.ProcessingError("0_1", "mapper", "orders", 3, 7),
    ],
)
def test_every_error_survives_pickling(error: errors.StreamsError) -> None:
    """Except ProcessorFailedError, which stays inside a task."""
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
