"""One request to several nodes in turn: the first response counts; a node that hangs costs a short delay."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...protocol.errors import HeadraceError, KafkaError, NetworkError
from .tasks_io import owned_task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from .network import Address

R = TypeVar("R")

# Bound: requests in flight at the same time, and so connections that are opened for them.
MAX_IN_FLIGHT = 3
# With MAX_IN_FLIGHT requests and further nodes left, the oldest request is cancelled after so many hedge
# delays. The last requests keep their whole timeout, so that a slow cluster can respond.
DELAYS_TO_RESPOND = 4


class Hedged(Generic[R]):
    """Sends a request to `addresses` in turn: to the next one after a failure, or after `hedge_ms`.

    `ask` returns the response, or an error after which the next node gets the request; an error that it
    raises ends the call. `more` finds further addresses; it is called once, when the first node fails or is
    late, and its addresses alternate with those that are left, so that a stale list hides no node. `hedged`
    is called with the addresses without a response whenever another node gets the request beside them.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        ask: Callable[[Address], Coroutine[Any, Any, R | KafkaError]],
        *,
        hedge_ms: int,
        more: Callable[[], Coroutine[Any, Any, Iterable[Address]]],
        hedged: Callable[[list[Address]], None],
    ) -> None:
        self._left = deque(dict.fromkeys(addresses))
        self._sent: set[Address] = set()
        self._ask, self._more, self._hedged = ask, more, hedged
        self._hedge_s = hedge_ms / 1000
        self._in_flight: dict[asyncio.Task[R | KafkaError], tuple[Address, float]] = {}  # address, start time
        self._searching: asyncio.Task[Iterable[Address]] | None = None
        self._has_searched = False
        self._next_at_s = 0.0  # the time of the next hedge
        self._failure: HeadraceError = NetworkError("no node is known")
        self._search_failure: HeadraceError | None = None

    async def first(self) -> R | HeadraceError:
        """The first response, or the last error if no node gave one; an error of `more` has precedence."""
        try:
            while True:
                self._begin_next()
                if not self._in_flight and self._searching is None:
                    return self._search_failure or self._failure
                answer = await self._wait()
                if answer is not None:
                    return answer
        finally:
            tasks: list[asyncio.Task[R | KafkaError] | asyncio.Task[Iterable[Address]]] = [*self._in_flight]
            if self._searching is not None:
                tasks.append(self._searching)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_next(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._in_flight and now_s < self._next_at_s:
            return
        if not self._has_searched and (self._sent or not self._left):
            self._has_searched = True
            self._searching = owned_task(self._more())
        if self._left and len(self._in_flight) == MAX_IN_FLIGHT:
            oldest, (_, since_s) = min(self._in_flight.items(), key=lambda item: item[1][1])
            if now_s - since_s >= DELAYS_TO_RESPOND * self._hedge_s:
                oldest.cancel()
                del self._in_flight[oldest]
        if self._left and len(self._in_flight) < MAX_IN_FLIGHT:
            if self._in_flight:
                self._hedged([address for address, _ in self._in_flight.values()])
            address = self._left.popleft()
            self._sent.add(address)
            self._in_flight[owned_task(self._ask(address))] = (address, now_s)
        elif not self._left:
            return  # `more` may find another node
        self._next_at_s = now_s + self._hedge_s

    async def _wait(self) -> R | None:
        """The response, if there is one. Returns when another node may get the request."""
        watched = [*self._in_flight, *([self._searching] if self._searching is not None else [])]
        timeout_s = None
        if self._in_flight and (self._left or not self._has_searched):
            timeout_s = max(self._next_at_s - asyncio.get_running_loop().time(), 0)
        done, _ = await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._searching in done:
            self._take_more()
        for task in [task for task in self._in_flight if task in done]:
            del self._in_flight[task]
            outcome = task.result()
            if not isinstance(outcome, KafkaError):
                return outcome
            self._failure = outcome
            self._next_at_s = 0.0
        return None

    def _take_more(self) -> None:
        searching, self._searching = self._searching, None
        assert searching is not None, "it has just ended"
        try:
            new = [address for address in searching.result() if address not in self._sent]
        except HeadraceError as error:
            self._search_failure = error
            return
        taking_turns = chain.from_iterable(zip_longest(new, self._left))
        self._left = deque(dict.fromkeys(address for address in taking_turns if address is not None))
