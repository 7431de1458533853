"""The layout is one, and costs nothing to those who do not use it."""

from __future__ import annotations

import subprocess
import sys

import headrace

WITHOUT = """
import sys
import headrace, headrace.aio
headrace.Producer, headrace.Consumer, headrace.aio.AsyncProducer, headrace.aio.AsyncConsumer
assert not {"pyarrow", "numpy"} & set(sys.modules), "an import of headrace is not one of Arrow"
sys.modules["pyarrow"] = None  # as if it were not installed
for attempt in range(2):
    try:
        headrace.ARROW_SCHEMA
    except ImportError as error:
        assert "pip install 'headrace[arrow]'" in str(error), error
    else:
        raise AssertionError("no error")
from headrace import *  # names everything that is there without it
"""


def test_the_schema_is_sparks() -> None:
    """Names, order and types."""
    assert str(headrace.ARROW_SCHEMA).splitlines()[:7] == [
        "key: binary",
        "value: binary",
        "topic: string",
        "partition: int32",
        "offset: int64",
        "timestamp: timestamp[us, tz=UTC]",
        "timestampType: int32",
    ]
    headers = headrace.ARROW_SCHEMA.field("headers").type.value_type
    assert str(headers) == "struct<key: string, value: binary>"


def test_pyarrow_is_imported_when_it_is_needed_and_missed_by_name() -> None:
    """In a process of its own."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
