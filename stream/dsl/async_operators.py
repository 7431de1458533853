"""Operators with async functions: their options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict

from ..processing import CallPolicy, Takes
from ..processors.async_values import KStreamMapValuesAsync
from . import stream_operators
from .durations import Duration, to_ms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .handles import StreamHandle

CONCURRENCY = 32
TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Retry:
    """Calls a function again after an error that is one of `on`, at most `attempts` times in all.

    The first pause is `backoff` (int: ms), each further one is twice as long, up to `max_backoff`.
    """

    attempts: int = 3
    backoff: Duration = 100
    max_backoff: Duration = 10_000
    on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        """Errors: TypeError, ValueError for what cannot be."""
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        for error in self.on:
            if not issubclass(error, Exception):
                raise TypeError(f"on must have classes of exceptions, not {error!r}")
        _ = self.delays_ms

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """The pause before each further attempt."""
        first, longest = to_ms(self.backoff, "backoff"), to_ms(self.max_backoff, "max_backoff")
        return tuple(min(first * 2**number, longest) for number in range(self.attempts - 1))


class AsyncOptions(TypedDict, total=False):
    """`concurrency`: calls under way in one task (32). `ordered`: results in the order of the records (True),
    or of each key (False). `timeout`: for one record with all attempts (60 s; int: ms). `retry`: None."""

    concurrency: int
    ordered: bool
    timeout: Duration
    retry: Retry | None
    name: str | None


def map_values_async(
    stream: StreamHandle,
    mapper: Callable[..., Awaitable[Any]],
    takes: Takes,
    *,
    concurrency: int = CONCURRENCY,
    ordered: bool = True,
    timeout: Duration = TIMEOUT,
    retry: Retry | None = None,
    name: str | None = None,
) -> StreamHandle:
    """Values that an async function makes. Errors: TypeError, ValueError."""
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    timeout_ms = to_ms(timeout, "timeout")
    if timeout_ms < 1:
        raise ValueError("timeout must be at least 1 ms")
    policy = CallPolicy(concurrency, ordered, timeout_ms)
    if retry is not None:
        policy = policy._replace(delays_ms=retry.delays_ms, retry_on=retry.on)
    supplier = KStreamMapValuesAsync(mapper, policy, takes)
    return stream_operators.new_values(stream, supplier, name, "KSTREAM-MAPVALUESASYNC-")
