"""Newer entries over older ones."""

from __future__ import annotations

from headrace.stream.state.merging import cached_rows, merged
from headrace.stream.state.thread_cache import ThreadCache
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.binary(min_size=1, max_size=1)


@given(
    st.dictionaries(KEYS, st.none() | st.just(b"new")), st.dictionaries(KEYS, st.just(b"old")), st.booleans()
)
def test_equal_to_an_updated_dict(
    over: dict[bytes, bytes | None], under: dict[bytes, bytes], forward: bool
) -> None:
    """None in the newer entries hides an older one."""
    expected = {key: value for key, value in (under | over).items() if value is not None}
    newer = iter(sorted(over.items(), reverse=not forward))
    rows = merged(newer, sorted(under.items(), reverse=not forward), forward)
    assert list(rows) == sorted(expected.items(), reverse=not forward)


def test_reading_cached_rows_makes_them_the_most_recently_used() -> None:
    """Also those that are not accepted, but none behind the end."""
    cache = ThreadCache(1000).open("cache", lambda _: None)
    for key in (b"a", b"b", b"c", b"d"):
        cache.put_clean(key, b"v")
    keys = [b"a", b"gone", b"b", b"c"]
    rows = cached_rows(cache, keys, lambda key: key != b"a", lambda key: key == b"c")
    assert list(rows) == [(b"b", b"v")]
    assert list(cache.entries) == [b"d", b"a", b"b", b"c"]
