"""Asks a worker of `make bench-streams` over its query port, by an order on stdin, until the line "stop".

With a rate: from several threads, each call of `keys` keys. Without: one query at a time, every PACE_S.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from .headrace_side import application
from .operations import ASKED, ASKERS, PACE_S, percentiles

if TYPE_CHECKING:
    from headrace import stream

TIMEOUT_S = 30.0


class Asker:
    """Asks about keys of the store "counts" from one or more threads, until `stop`."""

    def __init__(self, queries: stream.Queries, order: dict[str, Any]) -> None:
        self._queries, self._keys, self._distinct = queries, order["keys"], order["distinct"]
        self._ends = threading.Event()
        self._taken_ms: list[float] = []
        self._asked = [0] * ASKERS
        self._failure: BaseException | None = None
        count = ASKERS if order["rate"] else 1
        period_s = count * self._keys / order["rate"] if order["rate"] else PACE_S
        self._started_s = time.monotonic()
        self._threads = [
            threading.Thread(target=self._run, args=(number, period_s, not order["rate"]))
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _key(self, number: int) -> str:
        return f"user-{number * 7919 % self._distinct:08d}"

    def _run(self, number: int, period_s: float, is_timed: bool) -> None:
        try:
            self._ask(number, period_s, is_timed)
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self._failure = error

    def _ask(self, number: int, period_s: float, is_timed: bool) -> None:
        due_s, at = time.monotonic(), number * self._distinct // ASKERS
        while not self._ends.wait(max(due_s - time.monotonic(), 0)):
            due_s += period_s
            at += self._keys
            begin_s = time.perf_counter()
            if self._keys == 1:
                self._queries.get("counts", self._key(at))
            else:
                self._queries.get_many("counts", [self._key(at + i) for i in range(self._keys)])
            if is_timed:
                self._taken_ms.append((time.perf_counter() - begin_s) * 1000)
                due_s = max(due_s, time.monotonic())
            self._asked[number] += self._keys

    def stop(self) -> dict[str, float]:
        """End all threads; queries/s, and the latency of timed ones. Errors: those of the queries."""
        seconds = time.monotonic() - self._started_s
        asked = sum(self._asked)
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return {ASKED: asked / seconds, **(percentiles(self._taken_ms) if self._taken_ms else {})}


def main() -> None:
    """Serve one order."""
    print("ready", flush=True)
    order = json.loads(sys.stdin.readline())
    with application(order["order"]).queries(order["order"]["bootstrap"], timeout_s=TIMEOUT_S) as queries:
        for number in range(100):  # connections, stores, and partitions are known afterwards
            queries.get("counts", f"user-{number:08d}")
        print("asking", flush=True)
        asker = Asker(queries, order)
        sys.stdin.readline()
        print(json.dumps(asker.stop()), flush=True)


if __name__ == "__main__":
    main()
