"""Tables that send_arrow accepts, and errors before anything is sent."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from headrace.clients.arrow.layout import HEADERS_TYPE
from headrace.clients.arrow.tables import PIECE_BYTES, PIECE_ROWS, Names, Table

NAMES = Names("key", "value", "headers", "partition", "timestamp")


def table(data: Any, names: Names = NAMES, *, serde: bool = False) -> Table:
    return Table(data, names, key_serde=serde, value_serde=serde)


def rows(data: Any, names: Names = NAMES) -> list[Any]:
    return list(table(data, names).records())


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"value": [b"a", b"b"], "key": [None, b"k"]}),
        pa.record_batch({"value": [b"a", b"b"], "key": [None, b"k"]}),
        pd.DataFrame({"value": [b"a", b"b"], "key": [None, b"k"], "other": [object(), object()]}),
        {"value": [b"a", b"b"], "key": pa.array([None, b"k"])},
        {"value": np.array([b"a", b"b"], dtype=object), "key": (None, b"k")},
        {"value": np.array([b"a", b"b"]), "key": pa.chunked_array([[None], [b"k"]], pa.binary())},
    ],
    ids=["table", "batch", "pandas", "dict", "numpy", "chunked"],
)
def test_accepted_table_types(data: Any) -> None:
    """All with the same two rows."""
    assert rows(data) == [Names(None, b"a", None, None, None), Names(b"k", b"b", None, None, None)]


def test_columns_are_named_by_the_parameters() -> None:
    """One column may serve twice; None switches one off."""
    names = Names("id", "id", None, None, None)
    assert rows({"id": [b"x"], "headers": [5], "partition": ["no"]}, names) == [
        Names(b"x", b"x", None, None, None)
    ]


def test_headers_in_the_forms_of_send() -> None:
    """Mappings, pairs, text values, none; Arrow's own become Python objects."""
    own = [{"key": "c", "value": "3"}, {"key": "c", "value": b"4"}]
    found = rows({"value": [b"v"] * 5, "headers": [{"a": "1"}, [("b", None)], (), None, own]})
    assert [row.headers for row in found] == [
        [{"key": "a", "value": b"1"}],
        [{"key": "b", "value": None}],
        [],
        None,
        [{"key": "c", "value": b"3"}, {"key": "c", "value": b"4"}],
    ]


def test_slices_are_bounded_by_rows_and_bytes() -> None:
    """Any cut gives the same rows in order; many small chunks are joined."""
    many = table({"value": pa.array([b"x"] * (2 * PIECE_ROWS + 5))})
    assert [piece.count for piece in many.pieces()] == [PIECE_ROWS, PIECE_ROWS, 5]
    wide = [piece.count for piece in table({"value": [b"x" * (PIECE_BYTES // 4)] * 16}).pieces()]
    assert sum(wide) == 16
    assert max(wide) <= 4
    cut = pa.chunked_array([[b"%d" % number] for number in range(1000)])
    assert [piece.count for piece in table({"value": cut}).pieces()] == [1000]
    assert [row.value for row in rows({"value": cut.slice(3, 2)})] == [b"3", b"4"]
    assert list(table({"value": pa.array([], pa.binary())}).pieces()) == []


UNNAMED = pa.array([[{"key": None, "value": b"x"}]], HEADERS_TYPE)
NOT_UTF8 = pa.array([[(b"\xff", b"x")]], pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])))
BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
)
BAD_NAME = pa.Array.from_buffers(
    HEADERS_TYPE,
    1,
    [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0")],
    children=[pa.StructArray.from_arrays([BAD_TEXT, pa.array([b""])], fields=list(HEADERS_TYPE.value_type))],
)
BACKWARDS = pa.Array.from_buffers(
    pa.binary(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\1\0\0\0"), pa.py_buffer(b"abc")]
)
VALUE = {"value": [b"v"]}


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([b"a"], TypeError, "not list"),
        (None, TypeError, "not NoneType"),
        (pa.array([b"a"]), TypeError, "or a dict of columns, not BinaryArray"),
        (pd.Series(["a"]), TypeError, "or a dict of columns, not Series"),
        ({}, ValueError, "no column 'value'"),
        (
            {"key": [b"a"], "body": [b"b"]},
            ValueError,
            r"no column 'value' for value=; the columns are \['key', 'body'\]",
        ),
        (
            pd.DataFrame({"body": [b"b"]}),
            ValueError,
            r"no column 'value' for value=; the columns are \['body'\]",
        ),
        ({"value": [1, 2]}, TypeError, "'value' has type int64"),
        ({"value": [{"a": 1}]}, TypeError, "'value' has type struct"),
        ({**VALUE, "key": [1.5]}, TypeError, "'key' has type double"),
        ({"value": [b"a", 1]}, TypeError, "column 'value'"),
        ({"value": b"abc"}, TypeError, "column 'value' must be a sequence"),
        ({"value": [b"a"], "key": [b"a", b"b"]}, ValueError, "different lengths"),
        ({**VALUE, "partition": ["1"]}, TypeError, "'partition' has type string"),
        ({**VALUE, "partition": [1.0]}, TypeError, "'partition' has type double.*'Int64'"),
        ({**VALUE, "timestamp": [1.5]}, TypeError, "'timestamp' has type double"),
        ({**VALUE, "timestamp": pa.array([1], pa.timestamp("us"))}, TypeError, "no time zone"),
        ({**VALUE, "headers": pa.array(["x"])}, TypeError, "'headers' has type string"),
        ({**VALUE, "headers": [5]}, TypeError, "int"),
        ({**VALUE, "headers": ["zz"]}, TypeError, "pairs or a mapping"),
        ({**VALUE, "headers": [[{"name": "a", "value": b"1"}]]}, TypeError, "pairs or a mapping"),
        ({**VALUE, "headers": [{5: b"x"}]}, TypeError, "name must be text"),
        ({**VALUE, "headers": UNNAMED}, ValueError, "headers without a name"),
        ({**VALUE, "headers": NOT_UTF8}, TypeError, "'headers' has type"),
        ({**VALUE, "headers": BAD_NAME}, ValueError, "have invalid data"),
        ({"value": BACKWARDS}, ValueError, "have invalid data"),
        ({"value": BAD_TEXT}, ValueError, "have invalid data"),
        (pa.table([[b"a"], [b"b"]], names=["value", "value"]), ValueError, "2 columns 'value'"),
        (pd.DataFrame({"value": [b"a", 1]}), TypeError, "data frame"),
    ],
)
def test_invalid_columns_are_errors(data: Any, error: type[Exception], text: str) -> None:
    """They name the column and its type."""
    with pytest.raises(error, match=text):
        table(data)


@pytest.mark.parametrize("field", Names._fields)
def test_named_column_must_exist(field: str) -> None:
    """A typo must not send records without keys."""
    with pytest.raises(ValueError, match=f"no column 'typo' for {field}=; the columns are \\['value'\\]"):
        table(VALUE, NAMES._replace(**{field: "typo"}))


def test_invalid_column_names_are_errors() -> None:
    """The value column cannot be switched off, and names are text."""
    with pytest.raises(ValueError, match="value="):
        table(VALUE, NAMES._replace(value=None))
    with pytest.raises(TypeError, match="column name or None"):
        table(VALUE, NAMES._replace(key=5))  # type: ignore[arg-type]


def test_other_column_types_need_a_serde() -> None:
    """Without one they are errors."""
    assert table({"value": [{"a": 1}]}, serde=True).count == 1


@pytest.mark.parametrize("name", ["key", "value", "headers", "partition", "timestamp"])
def test_column_name_of_another_type_is_an_error(name: str) -> None:
    """It names the argument and the value."""
    names: Any = NAMES._replace(**{name: 5})
    with pytest.raises(TypeError, match=f"^{name}= must be a column name or None, not int 5$"):
        table({"value": [b"x"]}, names)


@pytest.mark.parametrize("value", [[b"a", b"b", b"c", b"d", b"e"], None])
def test_headers_of_a_data_frame(value: Any) -> None:
    """Pairs as tuples or lists, dicts, Arrow's pairs, and none; also without other columns."""
    headers = [
        [("a", b"1"), ("a", None)], {"b": "2"}, None, [["c", b"3"]], [{"key": "d", "value": b"4"}],
    ]  # fmt: skip
    frame = pd.DataFrame({"headers": pd.Series(headers, dtype=object)})
    if value is None:
        with pytest.raises(ValueError, match="no column 'value'"):
            table(frame)
        return
    frame["value"] = value
    made = table(frame)
    found = [row.headers for row in made.records()]
    assert [pairs and [(pair["key"], pair["value"]) for pair in pairs] for pairs in found] == [
        [("a", b"1"), ("a", None)], [("b", b"2")], None, [("c", b"3")], [("d", b"4")],
    ]  # fmt: skip
