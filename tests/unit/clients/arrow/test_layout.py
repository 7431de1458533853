"""The Arrow schema of records, and imports only where it is used."""

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


def test_schema_equals_sparks() -> None:
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


def test_pyarrow_is_imported_at_first_use_and_its_lack_is_an_error() -> None:
    """In a process of its own."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pandas_is_not_imported_for_a_batch() -> None:
    """Its import takes tenths of a second, during which an event loop would stall."""
    code = """if True:
        import sys
        from headrace.clients.arrow.layout import projection, to_record_batch
        import types
        decoded = types.SimpleNamespace(count=3)
        made = to_record_batch(projection(["topic"]), decoded, [("ab", 2), ("c", 1)])
        assert made.column("topic").to_pylist() == ["ab", "ab", "c"], made
        empty = types.SimpleNamespace(count=0)
        assert to_record_batch(projection(["topic"]), empty, [("ab", 0)]).num_rows == 0
        made.validate(full=True)
        sys.exit("pandas" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=500)
