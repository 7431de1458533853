"""The application: a builder with an id and configuration."""

from __future__ import annotations

import headrace.stream
import pytest
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


def test_everything_public_can_be_loaded() -> None:
    """Names are loaded when they are first used."""
    for name in headrace.stream.__all__:
        assert getattr(headrace.stream, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        headrace.stream.nothing  # noqa: B018
