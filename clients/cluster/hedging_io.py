"""One question to several nodes: the first answer counts, and a node that hangs delays it only a little."""

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

# Bound: requests under way for one question, and so connections that it may open at once.
MAX_ASKED_AT_ONCE = 3
# With MAX_ASKED_AT_ONCE unanswered and more nodes to ask, the oldest request is given up after so many hedge
# delays. The last ones keep their whole timeout, so that a slow cluster is answered, too.
DELAYS_TO_ANSWER = 4


class Hedged(Generic[R]):
    """Asks `addresses` in turn: the next one when the last one failed, or has not answered for `hedge_ms`.

    `ask` returns the answer, or the error after which another node is asked; what it raises ends the
    question. `more` finds further addresses; it is called once, when the first node fails or is late, and its
    addresses take turns with those that are left, so that a stale list of nodes hides no other node. `hedged`
    is called with the addresses that have not answered whenever another node is asked beside them.
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
        self._asked: set[Address] = set()
        self._ask, self._more, self._hedged = ask, more, hedged
        self._hedge_s = hedge_ms / 1000
        self._under_way: dict[asyncio.Task[R | KafkaError], tuple[Address, float]] = {}  # and since when
        self._searching: asyncio.Task[Iterable[Address]] | None = None
        self._has_searched = False
        self._next_at_s = 0.0  # when another node may be asked beside those under way
        self._failure: HeadraceError = NetworkError("no node is known")
        self._search_failure: HeadraceError | None = None

    async def first(self) -> R | HeadraceError:
        """The first answer, or the last error when no node gave one; an error of `more` counts most."""
        try:
            while True:
                self._begin_next()
                if not self._under_way and self._searching is None:
                    return self._search_failure or self._failure
                answer = await self._wait()
                if answer is not None:
                    return answer
        finally:
            tasks: list[asyncio.Task[R | KafkaError] | asyncio.Task[Iterable[Address]]] = [*self._under_way]
            if self._searching is not None:
                tasks.append(self._searching)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_next(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._under_way and now_s < self._next_at_s:
            return
        if not self._has_searched and (self._asked or not self._left):
            self._has_searched = True
            self._searching = owned_task(self._more())
        if self._left and len(self._under_way) == MAX_ASKED_AT_ONCE:
            oldest, (_, since_s) = min(self._under_way.items(), key=lambda item: item[1][1])
            if now_s - since_s >= DELAYS_TO_ANSWER * self._hedge_s:
                oldest.cancel()
                del self._under_way[oldest]
        if self._left and len(self._under_way) < MAX_ASKED_AT_ONCE:
            if self._under_way:
                self._hedged([address for address, _ in self._under_way.values()])
            address = self._left.popleft()
            self._asked.add(address)
            self._under_way[owned_task(self._ask(address))] = (address, now_s)
        elif not self._left:
            return  # another node may be asked as soon as one is found
        self._next_at_s = now_s + self._hedge_s

    async def _wait(self) -> R | None:
        """The answer, if one has come. Returns when another node may be asked."""
        watched = [*self._under_way, *([self._searching] if self._searching is not None else [])]
        timeout_s = None
        if self._under_way and (self._left or not self._has_searched):
            timeout_s = max(self._next_at_s - asyncio.get_running_loop().time(), 0)
        done, _ = await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._searching in done:
            self._take_more()
        for task in [task for task in self._under_way if task in done]:
            del self._under_way[task]
            outcome = task.result()
            if not isinstance(outcome, KafkaError):
                return outcome
            self._failure = outcome
            self._next_at_s = 0.0
        return None

    def _take_more(self) -> None:
        searching, self._searching = self._searching, None
        assert searching is not None, "its end was just seen"
        try:
            new = [address for address in searching.result() if address not in self._asked]
        except HeadraceError as error:
            self._search_failure = error
            return
        taking_turns = chain.from_iterable(zip_longest(new, self._left))
        self._left = deque(dict.fromkeys(address for address in taking_turns if address is not None))
