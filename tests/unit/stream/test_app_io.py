"""The application: a builder with an id and configuration."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.protocol.errors import ConfigError
from headrace.stream import App, TestDriver, TopologyError
from headrace.stream.state.store_spec import StoreKind


def test_an_application_builds_its_topology() -> None:
    """Its id is the prefix of internal topics."""
    app = App("shop", key=utf8, value=json, guarantee="exactly_once_v2", config={"producer.linger.ms": 5})
    app.stream("orders").group_by(lambda k, v: v).count(store="counts")
    assert app.build(app.application_id).sub_topology(1).changelogs == {"counts": "shop-counts-changelog"}
    assert (app.settings.key_serde, app.settings.value_serde) == (utf8, json)
    assert app.config.is_exactly_once
    assert app.client_configs["producer"] == {"linger.ms": 5}


def test_a_function_gives_the_timestamps_of_all_streams() -> None:
    """As of one stream: `timestamp=` takes an extractor or a function of the record."""
    app = App("shop", key=utf8, value=json, timestamp=lambda record: record.value["at"])
    app.stream("orders").to("copies")
    with TestDriver(app) as driver:
        driver.input_topic("orders").pipe_input("a", {"at": 7}, timestamp=100)
        assert driver.output_topic("copies").read_record().timestamp == 7


def test_an_instance_overrides_the_config_of_its_application() -> None:
    """Also what tasks are configured with. Keys that shape the topology come too late."""
    app = App("shop", key=utf8, value=json, config={"max.task.idle.ms": 5})
    app.stream("orders").to("copies")
    changed = {
        "max.task.idle.ms": 7,
        "buffered_records_per_partition": 9,
        "errors.dead.letter.queue.topic.name": "d",
    }
    settings = app.instance(config=changed)._planner.settings
    assert (settings.max_task_idle_ms, settings.buffered_records) == (7, 9)
    for handler in (
        settings.deserialization_handler,
        settings.processing_handler,
        settings.production_handler,
    ):
        assert handler.dead_letter_topic == "d"
    assert app.settings.max_task_idle_ms == 5
    for name in ("dsl.store.format", "default_dsl_store", "topology.optimization", "application.id"):
        with pytest.raises(ConfigError, match="shapes the topology"):
            app.instance(config={name: "none"})


def test_keys_that_shape_the_topology() -> None:
    """Kinds of stores, names, optimizations."""

    def built(**options: Any) -> App:
        app = App("shop", key=utf8, value=json, **options)
        grouped = app.stream("orders").group_by(lambda key, value: value)
        for name in ("a", "b"):
            grouped.count(name=name)
        return app

    def stores(app: App) -> set[tuple[Any, bool]]:
        topology = app.build("shop")
        found = [
            each for number in topology.sub_topology_ids for each in topology.sub_topology(number).stores
        ]
        return {(each.kind, each.persistent) for each in found}

    assert stores(built()) == {(StoreKind.TIMESTAMPED_KEY_VALUE, True)}
    assert stores(built(default_store="in_memory")) == {(StoreKind.TIMESTAMPED_KEY_VALUE, False)}
    for form in ("headers", "HEADERS"):
        assert stores(built(store_format=form)) == {(StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS, True)}
    with pytest.raises(TopologyError, match="name"):
        built(explicit_names=True).build("shop")
    repartitions = [built(optimization=each).describe().count("Sink:") for each in ("none", "all")]
    assert repartitions[0] >= repartitions[1] == 1
