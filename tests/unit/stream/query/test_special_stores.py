"""Global stores, which every instance has, and keys that the application distributes by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream import App, KeyQuery, RangeQuery, StoreUnavailableError, Topology, ValueAndTimestamp
from headrace.stream.query.connect_io import queries_of
from headrace.stream.query.gate_io import QueryGate
from headrace.stream.query.hosts import HostInfo, HostMetadata
from headrace.stream.query.hosts_io import KnownHosts
from headrace.stream.query.local_io import LocalStores
from headrace.stream.query.server_io import QueryServer
from headrace.stream.query.views_io import ViewOptions, view_of
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext
from worker_rig import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Served:
    """Stores with a query server, and a handle that asks it."""

    def __init__(self, plan: Any, stores: dict[str, Any] | None, hosts: Any = None) -> None:
        self.gate = QueryGate()
        opened = None if stores is None else (stores, self.gate)
        self.local = LocalStores(lambda: plan, list, lambda: opened, isolation="read_committed")
        self.server = QueryServer(self.local, "app", "127.0.0.1", 0)
        self.server.start()
        host = HostInfo("127.0.0.1", self.server.port)
        table = {host: HostMetadata(host, *(hosts or ()))}
        self.queries = queries_of("app", plan.built, plan.settings, KnownHosts(lambda: table))

    def close(self) -> None:
        self.queries.close()
        self.server.close()


@pytest.fixture
def places() -> Iterator[Served]:
    """A global store with berlin: 3."""
    app = App("app", key=utf8, value=int64)
    app.global_table("places", store="places")
    plan = plan_of(app, {}, lambda folder, name: MemoryEngine())
    topology = plan.built.global_topology()
    assert topology is not None
    (builder,) = topology.global_stores
    store: Any = builder.build()  # type: ignore[attr-defined]
    context = FakeStoreContext()
    context.key_serde, context.value_serde = utf8, int64
    store.init(context)
    served = Served(plan, {"places": store})
    store.put("berlin", ValueAndTimestamp(3, 1))
    yield served
    served.close()


def test_global_stores(places: Served) -> None:
    """Each instance answers, with all writes: they belong to no transaction of the application."""
    view = view_of(places.local, "places", "key_value", ViewOptions(values_only=True))
    assert view.get("berlin") == 3
    with view.all() as rows:
        assert list(rows) == [("berlin", 3)]
    found = places.local.query("places", KeyQuery("berlin"))
    assert found.only_result().value == 3  # type: ignore[union-attr]
    assert places.queries.get("places", "berlin") == 3
    assert places.queries.get_many("places", ["berlin", "x"]) == {"berlin": 3, "x": None}
    result = places.queries.query("places", RangeQuery()).global_result
    assert result is not None
    assert result.value == [("berlin", 3)]


def test_a_global_store_that_is_not_open() -> None:
    """A retriable error."""
    app = App("app", key=utf8, value=int64)
    app.global_table("places", store="places")
    served = Served(plan_of(app, {}, None), None)
    try:
        with pytest.raises(StoreUnavailableError, match="not open"):
            view_of(served.local, "places", None, ViewOptions()).get("berlin")
    finally:
        served.close()


def test_keys_that_the_application_distributes() -> None:
    """An instance says which partition the function gives; other keys go by the hash of their bytes."""

    def by_length(_topic: str, key: Any, _value: Any, count: int) -> int:
        return len(key) % count

    class Keep:
        def process(self, record: Any) -> None:
            """Nothing."""

    topology = Topology()
    topology.add_source("in", "in", key=utf8, value=int64)
    topology.add_sink("out", "middle", "in", key=utf8, value=int64, partitioner=by_length)
    topology.add_source("middle", "middle", key=utf8, value=int64)
    topology.add_processor("keep", Keep, "middle")
    topology.add_state_store(StoreBuilder("kept", StoreKind.KEY_VALUE, utf8, int64), "keep")
    app = App("app", key=utf8, value=int64)
    program = SimpleNamespace(
        build=topology.build, config=app.config, settings=app.settings, application_id="app"
    )
    plan = plan_of(program, {"in": 4, "middle": 4}, None)  # type: ignore[arg-type]
    hosts = frozenset({("middle", 1), ("middle", 2)}), frozenset({("middle", 3)})
    served = Served(plan, None, hosts)
    try:
        owners = [served.queries.owner("kept", key) for key in ("a", "bb", "ccc", "dddd")]
        assert [owner.partition for owner in owners] == [1, 2, 3, 0]
        assert [owner.active is not None for owner in owners] == [True, True, False, False]
        assert [len(owner.standbys) for owner in owners] == [0, 0, 1, 0]
    finally:
        served.close()
