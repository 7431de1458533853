"""The errors of interactive queries. The cause of a retriable error ends with a rebalance.

Source: Kafka InvalidStateStoreException.java and its subclasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import NetworkError
from ..errors import StreamsError

if TYPE_CHECKING:
    from ...protocol.errors import HeadraceError


class QueryError(StreamsError):
    """A query failed. `retriable`: a retry of the same query may succeed."""

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
    """The kind of the store does not support the query or the view."""


class InvalidStorePartitionError(QueryError, ValueError):
    """The store has no such partition."""


class QueryTimeoutError(QueryError, TimeoutError):
    """No instance answered before the deadline. The cause is the last reason."""

    retriable = True


class ResultTooLargeError(QueryError):
    """The result has more rows or bytes than one response may have: query a smaller range."""


_REASONS = {
    False: (("encrypted connections only",), "these instances require a secret: set query.secret.file"),
    True: (
        ("another key than", "does not encrypt"),
        "the secret for queries is not that of the instances, or these have none",
    ),
}


def explained(error: HeadraceError, *, has_secret: bool) -> HeadraceError:
    """The text of a failed connection to an instance, with advice about the secret for queries."""
    texts, advice = _REASONS[has_secret]
    found = any(text in str(error) for text in texts)
    return NetworkError(f"{error}; {advice}") if found and isinstance(error, NetworkError) else error
