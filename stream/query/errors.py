"""The errors of interactive queries. Those that are retriable go away when a rebalance has ended.

Source: Kafka InvalidStateStoreException.java and its subclasses.
"""

from __future__ import annotations

from ..errors import StreamsError


class QueryError(StreamsError):
    """A query cannot be answered. `retriable`: the same query may succeed a moment later."""

    retriable = False


class StoreUnavailableError(QueryError):
    """The store is being restored, or the instance does not run (yet)."""

    retriable = True


class StoreMigratedError(QueryError):
    """The task of the store is not here (any more): another instance has it, or will have it."""

    retriable = True


class UnknownStoreError(QueryError):
    """The topology has no such store."""


class WrongStoreKindError(QueryError, TypeError):
    """The store is of another kind than the query or the view is for."""


class InvalidStorePartitionError(QueryError, ValueError):
    """The store has no such partition."""


class QueryTimeoutError(QueryError, TimeoutError):
    """No instance answered before the deadline. The cause is the last reason."""

    retriable = True


class ResultTooLargeError(QueryError):
    """A query has more rows or bytes than one answer may have: ask for a smaller range."""
