"""Stores of suppliers: they do what the built-in stores do, and the task opens, restores and commits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream import (
    App,
    Builder,
    BytesStore,
    KeyValueBytesStore,
    Store,
    StoreKind,
    StoreSpec,
    WindowBytesStore,
    count_windows,
    join_window,
    session,
    sliding,
    tumbling,
)
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.testing.strategies import out_of_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.dict_stores import DictKeyValue, DictVersioned, dict_store
from tests.fakes.stream_run import Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS = out_of_order(
    st.sampled_from("ab"), st.integers(0, 5), max_size=25, max_step_ms=6, max_lateness_ms=20, tombstones=True
)


def newer(_old: Any, new: Any) -> Any:
    return new


def by_text(table: Any) -> None:
    table.to_stream(lambda key, _: str(key)).to("out")


def windowed(windows: Any, emit: str = "update") -> Callable[[Builder], None]:
    def build(builder: Builder) -> None:
        by_text(builder.stream("in").group_by_key().windowed_by(windows).emit(emit).reduce(newer))

    return build


def table_join(builder: Builder) -> None:
    left, right = builder.table("in"), builder.table("other", store="right")
    joined = left.join(right, lambda one, two: [one, two], foreign_key=lambda value: "ab"[value % 2])
    joined.to_stream().to("out")


def stream_join(builder: Builder) -> None:
    left, right = builder.stream("in"), builder.stream("other")
    joined = left.outer_join(right, lambda one, two: [one, two], window=join_window(10, grace=5))
    joined.to("out")


def versioned_join(builder: Builder) -> None:
    versions = builder.table(
        "other", store=Store("versions", history=40, supplier=builder._graph.store_supplier)
    )
    builder.stream("in").join(versions, lambda one, two: [one, two]).to("out")


APPLICATIONS = {
    "count": lambda builder: by_text(builder.stream("in").group_by_key().count()),
    "count windows": lambda builder: by_text(
        builder.stream("in").group_by_key().windowed_by(count_windows(3, advance=1)).reduce(newer)
    ),
    "tumbling": windowed(tumbling(10, grace=5)),
    "sliding": windowed(sliding(10, grace=5)),
    "sessions": windowed(session(5, grace=5)),
    "outer join": stream_join,
    "foreign key": table_join,
    "versioned": versioned_join,
}


@pytest.mark.parametrize("build", APPLICATIONS.values(), ids=APPLICATIONS)
@pytest.mark.parametrize("cache_bytes", [0, 10**6])
@given(records=RECORDS, topics=st.lists(st.booleans(), min_size=25, max_size=25), crash_at=st.integers(1, 60))
@settings(max_examples=6)
def test_operators_give_equal_results_with_supplied_stores(
    build: Callable[[Builder], None],
    cache_bytes: int,
    records: list[tuple[str, Any, int]],
    topics: list[bool],
    crash_at: int,
) -> None:
    """Also after a crash, when a store in memory is restored from its changelog."""
    found: list[Any] = []
    steps: list[int] = []
    for supplier in (None, None, dict_store):  # the first run counts the steps at which there may be a crash
        builder = Builder(persistent=False, store_supplier=supplier)
        build(builder)
        run = Run(builder, cache_bytes=cache_bytes, crash_at=[crash_at % steps[0] + 1] if any(steps) else [])
        for record, is_other in zip(records, topics, strict=False):
            is_two = is_other and build in (stream_join, table_join, versioned_join)
            run.send("other" if is_two else "in", record)
        steps.append(run.driver.steps)
        found.append(run.read())
        run.close()
    assert found[1] == found[2]


def test_a_null_value_moves_the_time_of_a_join_store() -> None:
    """As in the built-in store in memory: what expired by it joins no more."""
    found = []
    for supplier in (None, dict_store):
        builder = Builder(persistent=False, store_supplier=supplier)
        stream_join(builder)
        run = Run(builder)
        for topic, record in (("in", ("a", 0, 0)), ("in", ("a", None, 25)), ("other", ("a", 0, 10))):
            run.send(topic, record)
        found.append(run.read())
        run.close()
    assert found[0] == found[1]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 9))),
        unique_by=lambda put: put[:2],
    ),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_versions_are_those_of_the_built_in_store(
    puts: list[tuple[str, int, int | None]], first: int, last: int
) -> None:
    """All reads, within the history. Timestamps differ: the built-in store forgets when it deletes a version
    with the timestamp of the latest one, as Java's does."""
    stores = []
    for supplier in (None, lambda _spec: DictVersioned()):
        kind = StoreKind.VERSIONED_KEY_VALUE
        facts: dict[str, Any] = {"history_retention_ms": 100, "supplier": supplier, "is_logged": False}
        spec = StoreBuilder("store", kind, utf8, int64, **facts)
        stores.append(opened(spec))
    for key, timestamp, value in puts:
        ends = [store.put(key, value, timestamp) for store in stores]
        assert ends[0] == ends[1]
    for key in "ab":
        assert stores[0].get(key) == stores[1].get(key)
        assert stores[0].get_as_of(key, first) == stores[1].get_as_of(key, first)
        for ascending in (True, False):
            found = [list(store.get_versions(key, first, last, ascending)) for store in stores]
            assert found[0] == found[1]


def opened(spec: StoreBuilder) -> Any:
    from headrace.stream import MockProcessorContext

    context = MockProcessorContext()
    store = spec.build()
    store.init(context)
    return store


def test_versions_that_ended_before_the_history_are_removed() -> None:
    """The version that is valid at its begin stays, unless it is a deletion."""
    inner = DictVersioned()
    store = opened(
        StoreBuilder(
            "store", StoreKind.VERSIONED_KEY_VALUE, utf8, int64,
            history_retention_ms=10, supplier=lambda _spec: inner, is_logged=False,
        )
    )  # fmt: skip
    for timestamp in (0, 5, 12):
        store.put("a", timestamp, timestamp)
    store.put("b", None, 1)
    store.put("a", 7, 20)
    store.put("b", 7, 21)
    assert sorted(inner.values) == [(b"a", 5), (b"a", 12), (b"a", 20), (b"b", 21)]


class Counting(DictKeyValue):
    """Counts its calls, and is as durable as its folder: `files` by folder has the last commit."""

    persistent = True
    files: ClassVar[dict[str, tuple[dict[bytes, bytes], int | None]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.offset: int | None = None

    def open(self, context: Any, name: str) -> None:
        self.calls.append("open")
        self.folder = str(context.store_folder(name))
        values, self.offset = self.files.get(self.folder, ({}, None))
        self.values = dict(values)

    def restore(self, key: bytes, value: bytes | None) -> None:
        self.calls.append("restore")
        super().put(key, value)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.calls.append("put")
        super().put(key, value)

    def commit(self, changelog_offset: int | None) -> None:
        self.calls.append("commit")
        self.offset = self.offset if changelog_offset is None else changelog_offset
        self.files[self.folder] = (dict(self.values), self.offset)

    def committed_offset(self) -> int | None:
        return self.offset

    def close(self) -> None:
        self.calls.append("close")


def test_a_task_opens_commits_restores_and_closes_the_store(tmp_path: Path) -> None:
    """After a crash a persistent one is restored from its last commit, another one from the start."""
    made: list[Any] = []

    class Forgetful(Counting):
        persistent = False

        def committed_offset(self) -> None:
            return None

        def open(self, context: Any, name: str) -> None:
            super().open(context, name)
            self.values = {}

    for kind in (Counting, Forgetful):
        made.clear()

        def supply(spec: StoreSpec, kind: Any = kind) -> BytesStore:
            assert (spec.name, spec.kind) == ("counts", StoreKind.TIMESTAMPED_KEY_VALUE)
            made.append(kind())
            return made[-1]

        builder = Builder()
        counts = builder.stream("in").group_by_key().count(store=Store("counts", supplier=supply))
        counts.to_stream().to("out")
        folder = tmp_path / kind.__name__
        run = Run(builder, state_dir=folder, cache_bytes=10**6, crash_at=[9])
        run.send("in", ("a", 1, 0), ("a", 2, 1), ("b", 3, 2), ("a", 4, 3))
        assert [value for key, value, _ in run.read() if key == "a"][-1] == 3
        run.close()
        first, second = made
        assert first.folder == str(folder / "counts")
        assert first.calls == ["open", "put", "commit", "put", "commit", "put"]
        assert second.calls.count("restore") == (0 if kind is Counting else 2)
        assert second.calls[0] == "open"
        assert second.calls[-1] == "close"


@pytest.mark.parametrize(
    ("supplier", "text"),
    [
        (
            lambda _spec: DictVersioned(),
            "whose kind is timestamped key-value, must return a KeyValueBytesStore",
        ),
        (lambda _spec: {}, r"store counts, .* not \{\}"),
    ],
)
def test_a_supplier_of_another_kind_is_an_error(supplier: Any, text: str) -> None:
    """It names the store."""
    builder = Builder()
    builder.stream("in").group_by_key().count(store=Store("counts", supplier=supplier))
    with pytest.raises(TypeError, match=text):
        Run(builder)


def test_a_supplier_may_leave_stores_to_headrace() -> None:
    """It returns None. Stores that say where they are do not ask the supplier of the application."""
    asked: list[str] = []

    def supply(spec: StoreSpec) -> KeyValueBytesStore | None:
        asked.append(spec.name)
        return None

    app = App("app", key=utf8, value=utf8, store_supplier=supply)
    words = app.stream("words").group_by_key()
    words.count(store="plain")
    words.count(store=Store("in-memory", persistent=False))
    words.count(store=Store("lru", max_entries=5))
    Run(app, settings=app.settings).send("words", ("a", "", 0)).close()
    assert set(asked) == {"plain"}
    with pytest.raises(ValueError, match="the supplier of a store decides"):
        Store("s", supplier=supply, persistent=True)


def test_a_store_of_the_processor_api_may_have_a_supplier() -> None:
    """With the settings that it describes."""
    seen: list[StoreSpec] = []

    def supply(spec: StoreSpec) -> WindowBytesStore:
        seen.append(spec)
        store = dict_store(spec)
        assert isinstance(store, WindowBytesStore)
        return store

    kind = StoreKind.WINDOW
    app = App("app", key=utf8, value=utf8)
    app.add_store(Store("w", kind=kind, retention=50, window_size=5, retain_duplicates=True, supplier=supply))

    class Keep:
        def init(self, context: Any) -> None:
            self.store, self.context = context.state_store("w"), context

        def process(self, record: Any) -> None:
            self.store.put(record.key, record.value, record.timestamp)
            with self.store.fetch_range(record.key, 0, 100) as rows:
                for start, value in rows:
                    self.context.forward(record._replace(value=f"{start} {value}"))

    app.stream("words").process(Keep, "w").to("out")
    run = Run(app, settings=app.settings).send("words", ("a", "x", 1), ("a", "y", 1), ("a", "z", 60))
    found = run.driver.output_topic("out").read_values()
    run.close()
    assert (seen[0].retention_ms, seen[0].window_size_ms, seen[0].retain_duplicates) == (50, 5, True)
    assert found == ["1 x", "1 x", "1 y", "60 z"]
