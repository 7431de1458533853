"""Values of plain types in MessagePack."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from headrace.stream.state.formats import plain_values
from hypothesis import given
from hypothesis import strategies as st

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=3)
        | st.sets(st.integers() | st.text(), max_size=3)
    ),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    """The types of a value, with those of its parts."""
    parts: Any = ()
    if isinstance(value, (list, tuple)):
        parts = [shape(each) for each in value]
    elif isinstance(value, dict):
        parts = {key: shape(each) for key, each in value.items()}
    return type(value), parts


@given(VALUES)
def test_plain_values_round_trip(value: Any) -> None:
    """In its types as well: a tuple stays a tuple, a long int an int."""
    read = plain_values.loads(plain_values.dumps(value))
    assert read == value
    assert shape(read) == shape(value)


def test_bytes_are_the_documented_ones() -> None:
    """They are in changelogs: another release reads them."""
    values = [(1, "a"), 2**70, datetime(2026, 1, 2, tzinfo=UTC)]
    assert plain_values.dumps(values).hex() == (
        "93d60392" + "01a161" + "c71601" + b"1180591620717411303424".hex()
        + "c71905" + b"2026-01-02T00:00:00+00:00".hex()
    )  # fmt: skip


def test_a_value_of_another_type_is_refused() -> None:
    """It would be read as something else."""
    with pytest.raises(TypeError, match="of type object cannot be kept"):
        plain_values.dumps([object()])


def test_an_error_leaves_nothing_behind() -> None:
    """All values are written by one packer."""
    before = plain_values.dumps({"a": 1})
    for refused, error in (([1, object()], TypeError), (["a", "\ud800"], UnicodeEncodeError)):
        with pytest.raises(error):
            plain_values.dumps(refused)
        assert plain_values.dumps({"a": 1}) == before
    assert plain_values.loads(plain_values.dumps([1, (2, 2**70)])) == [1, (2, 2**70)]
    assert plain_values.dumps({"a": 1}) == before


def test_an_unknown_extension_is_refused() -> None:
    """A later release may have written it."""
    with pytest.raises(ValueError, match="extension 9 is not known"):
        plain_values.loads(bytes.fromhex("d40990"))
