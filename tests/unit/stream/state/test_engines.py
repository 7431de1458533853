"""Errors of stores."""

from headrace.stream.state import engines


def test_kinds_of_errors_are_state_store_errors() -> None:
    """A task treats all of them, and rebuilds a damaged store."""
    for kind in (engines.DamagedStoreError, engines.StoreLockedError, engines.StoreFullError):
        assert issubclass(kind, engines.StateStoreError)
