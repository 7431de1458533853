"""Serdes over the application's defaults."""

from __future__ import annotations

from headrace.clients import serdes
from headrace.stream.topology.serdes import DerivedSerde, resolve


def test_derived_serdes_use_defaults_for_missing_parts() -> None:
    """The parts are resolved when the defaults are known."""
    pair = DerivedSerde(
        lambda key, value: serdes.Serde(f"{key.name}+{value.name}", bytes, bytes),
        (("key", None), ("value", serdes.json)),
    )
    outer = DerivedSerde(lambda inner: serdes.Serde(f"({inner.name})", bytes, bytes), (("value", pair),))
    assert resolve(outer, "value", key=serdes.utf8, value=serdes.int64).name == "(utf8+json)"
    assert resolve(None, "value", key=serdes.utf8, value=serdes.int64) is serdes.int64
    assert resolve(None, "key", key=serdes.utf8, value=serdes.int64) is serdes.utf8
    assert resolve(serdes.uuid, "key", key=serdes.utf8, value=serdes.int64) is serdes.uuid
