"""The process environment."""

from headrace.clients.cluster.environment_io import environment


def test_the_environment_is_that_of_this_process() -> None:
    """PATH is always there."""
    assert environment()["PATH"]
