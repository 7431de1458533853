"""The process environment, and values that refer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.clients.cluster.environment_io import environment, resolved
from headrace.clients.config import ConnectionConfig, given

if TYPE_CHECKING:
    import pytest


def test_the_environment_is_that_of_this_process() -> None:
    """PATH is always there."""
    assert environment()["PATH"]


def test_values_of_clients_may_be_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """The given values keep the reference, as they are sent to workers; the config has the value."""
    monkeypatch.setenv("SECRET_OF_A_TEST", "worker-7")
    config = {"client.id": "${env:SECRET_OF_A_TEST}", "config.providers": "env"}
    values = given(config, {}, (ConnectionConfig,))
    assert values == config
    assert resolved(ConnectionConfig, values).client_id == "worker-7"
