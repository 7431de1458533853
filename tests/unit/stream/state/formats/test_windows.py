"""Keys of windowed stores and topics; tests/golden has Java's bytes."""

from __future__ import annotations

from headrace.clients.serdes import utf8
from headrace.stream.records import Window, Windowed
from headrace.stream.state.formats import windows
from hypothesis import given
from hypothesis import strategies as st


def test_window_ends_at_most_at_the_largest_timestamp() -> None:
    """An unlimited window would overflow Java's long."""
    assert windows.window_of(10, windows.MAX_TIME) == Window(10, windows.MAX_TIME)


def test_empty_windowed_keys_are_none() -> None:
    """Java reads an empty key as null."""
    serdes = (
        windows.time_windowed(utf8, 1),
        windows.changelog_windowed(utf8, 1),
        windows.session_windowed(utf8),
    )
    assert [serde.loads(b"") for serde in serdes] == [None, None, None]


def test_changelog_keys_have_a_sequence_number() -> None:
    """Java's TimeWindowedDeserializer reads them with setIsChangelogTopic."""
    serde = windows.changelog_windowed(utf8, 5)
    key = Windowed("a", Window(10, 15))
    assert serde.dumps(key) == windows.window_key(b"a", 10)
    assert serde.loads(windows.window_key(b"a", 10, 3)) == key


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_next_key_bounds_all_keys_with_a_prefix(prefix: bytes, key: bytes) -> None:
    """A key starts with the prefix exactly if it is between the prefix and the next key."""
    end = windows.next_key(prefix)
    assert key.startswith(prefix) == (prefix <= key and (end is None or key < end))
