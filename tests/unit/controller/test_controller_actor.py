"""The classes of actors, without Ray."""

from __future__ import annotations

import inspect

import pytest
from headrace.controller.controller_actor import ControllerActor
from headrace.storage_node.node_actor import NodeActor


@pytest.mark.parametrize("actor", [ControllerActor, NodeActor])
def test_actors_have_no_coroutine_methods(actor: type) -> None:
    """One alone makes Ray run an actor's calls in an event loop, where calls of Ray block it, with a warning
    in its stderr."""
    coroutines = [name for name, _ in inspect.getmembers(actor, inspect.iscoroutinefunction)]
    assert coroutines == []
