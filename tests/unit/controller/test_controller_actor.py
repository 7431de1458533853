"""The actor classes, without Ray."""

import inspect

import pytest
from headrace.controller.controller_actor import ControllerActor
from headrace.storage_node.node_actor import NodeActor


@pytest.mark.parametrize("actor", [ControllerActor, NodeActor])
def test_actors_have_no_coroutine_methods(actor: type) -> None:
    """With one, Ray runs an actor's calls in an event loop, which Ray calls would block."""
    coroutines = [name for name, _ in inspect.getmembers(actor, inspect.iscoroutinefunction)]
    assert coroutines == []
