"""The application: a builder with an id and configuration."""

from __future__ import annotations

from headrace.clients.serdes import json, utf8
from headrace.stream import App


def test_an_application_builds_its_topology() -> None:
    """Its id is the prefix of internal topics."""
    app = App("shop", key=utf8, value=json, guarantee="exactly_once_v2", config={"producer.linger.ms": 5})
    app.stream("orders").group_by(lambda k, v: v).count(store="counts")
    assert app.build(app.application_id).sub_topology(1).changelogs == {"counts": "shop-counts-changelog"}
    assert (app.settings.key_serde, app.settings.value_serde) == (utf8, json)
    assert app.config.is_exactly_once
    assert app.client_configs["producer"] == {"linger.ms": 5}
