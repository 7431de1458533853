"""Large commits of key-value stores, which are written in parts: queries do not wait for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.runtime.compiled_io import HOT_MODULES
from headrace.stream.records import ValueAndTimestamp
from headrace.stream.state import deferred, flushing, rocksdict_io
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.engines import StateStoreError
from headrace.stream.state.key_value_bytes import VALUES
from headrace.stream.state.rocksdict_io import PART, RocksEngine
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 5 * PART


class Engine(RocksEngine):
    """Fails behind so many batches."""

    batches = 0
    most = 1000

    def _write(self, *arguments: Any) -> None:
        if self.batches == self.most:
            raise OSError("power failure")
        self.batches += 1
        super()._write(*arguments)


def values(number: int) -> dict[bytes, bytes | None]:
    return {b"%06d" % key: b"%d" % number for key in range(COUNT)}


def read(engine: RocksEngine) -> dict[bytes, bytes | None]:
    return dict(engine.rows(VALUES, None, None, True))


def test_a_crash_inside_a_commit_leaves_the_offset_before(tmp_path: Path) -> None:
    """Some values are newer: the changelog has them from that offset on."""
    engine = Engine(tmp_path)
    engine.write({VALUES: values(0)}, (), 5, may_divide=True)
    assert engine.batches == 1, "a store without an offset counts as empty: its first commit is one batch"
    engine.write({VALUES: values(1)}, (), 7, may_divide=True)
    assert engine.batches > 3
    engine.batches, engine.most = 0, 2
    with pytest.raises(StateStoreError, match="power failure"):
        engine.write({VALUES: values(2)}, (), 9, may_divide=True)
    engine.close()
    engine = Engine(tmp_path)
    assert engine.offset() == 7
    assert set(read(engine).values()) == {b"1", b"2"}
    engine.write({VALUES: values(2), "meta": {b"time": b"5"}}, (), 9, may_divide=True)
    assert (engine.offset(), read(engine), engine.get("meta", b"time")) == (9, values(2), b"5")
    engine.close()


@pytest.mark.parametrize(
    ("options", "offset", "dropped"),
    [({}, 7, ()), ({"may_divide": True}, None, ()), ({"may_divide": True}, 7, ("x",))],
)
def test_what_has_to_be_one_batch(
    tmp_path: Path, options: dict[str, bool], offset: int | None, dropped: tuple[str, ...]
) -> None:
    """Stores of which a record changes several entries, those without a changelog, and dropped key spaces."""
    engine = Engine(tmp_path)
    engine.write({VALUES: values(1)}, dropped, offset, **options)
    assert (engine.batches, read(engine)) == (1, values(1))
    engine.close()


def test_entries_of_a_flush_are_written_before_any_is_forwarded() -> None:
    """A listener that reads keys of the store evicts entries of a later part, which count as written."""
    context = FakeStoreContext(cache_bytes=64_000)
    kind = StoreKind.TIMESTAMPED_KEY_VALUE
    store = StoreBuilder("store", kind, utf8, int64, is_cached=True).build()
    store.init(context)
    count, others = flushing.PART + 88, iter(range(2000))
    found: dict[str, int] = {}

    def read(key: str, *_: Any) -> None:
        store.get(key)
        for _ in range(3):
            store.get(f"other {next(others)}")
        if key == "500":
            found.update({f"{late}": store.get(f"{late}").value for late in range(flushing.PART, count)})

    for number in range(2000):
        store.put(f"other {number}", ValueAndTimestamp(0, 1))
    for number in range(count):
        store.put(f"{number}", ValueAndTimestamp(1, 1))
    store.flush()
    store.set_flush_listener(read, False)
    for number in range(count):
        store.put(f"{number}", ValueAndTimestamp(2, 2))
    store.flush()
    assert set(found.values()) == {2}
    assert {store.get(f"{number}").value for number in range(count)} == {2}


def test_compiled_loops_have_points_at_which_threads_switch() -> None:
    """Such a point is a call of an interpreted function: compiled, it would be none."""
    for module in (deferred, flushing, rocksdict_io):
        function = module.switch_point
        assert type(function).__name__ == "function"
        assert function.__module__ not in HOT_MODULES
