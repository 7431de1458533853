"""The group `workers`: one topic counted by one or more workers of an application.

Workers are processes. The first one is on the clients' core, the next ones on all cores in turn: on a machine
with two cores the second worker shares its core with the broker.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any

from headrace.benchmarks.harness import ChildError
from headrace.runtime.waiting_io import until

from .cells import HEADRACE, PARTITIONS, Input, rates
from .operations import WORKERS, workers
from .servers_io import START_TIMEOUT_S, begin, expect, stop

if TYPE_CHECKING:
    from headrace.benchmarks.servers.children_io import Child

    from .cells import Sizes
    from .servers_io import Servers

KEYS = 20_000
RECORDS, QUICK_RECORDS = 8_000_000, 3_000_000
RUN_S, QUICK_RUN_S = 8.0, 3.0  # of CPU time of all workers
ANSWER_S = 20.0


class ScaleRuns:
    """Runs the cells of `workers`."""

    def __init__(self, servers: Servers, sizes: Sizes) -> None:
        self._servers = servers
        self.source = Input(QUICK_RECORDS if sizes.is_quick else RECORDS, KEYS)
        self.run_s = QUICK_RUN_S if sizes.is_quick else RUN_S

    def run(self, cell: str) -> dict[str, Any]:
        """Rates of all workers together."""
        servers = self._servers
        count = next(number for number in WORKERS if workers(number) == cell)
        broker = servers.broker(HEADRACE)
        servers.fill(HEADRACE, self.source)
        order = servers.order(HEADRACE, "count", self.source.topic, paused="1")
        broker.create_topic(order["output"], PARTITIONS)
        cores = [*servers.cores, *servers.server_cores]
        try:
            with contextlib.ExitStack() as running:
                children = [
                    running.enter_context(servers.application(HEADRACE, [cores[number % len(cores)]]))
                    for number in range(count)
                ]
                for number, child in enumerate(children):
                    begin(child, {**order, "state": f"{order['state']}-{number}"})
                return self._measured(children, order)
        finally:
            broker.delete_topic(order["output"])
            for number in range(count):
                shutil.rmtree(f"{order['state']}-{number}", ignore_errors=True)

    def _measured(self, children: list[Child], order: dict[str, str]) -> dict[str, Any]:
        each = f"{PARTITIONS // len(children)} 0"
        if not until(lambda: all(tasks_of(child) == each for child in children), START_TIMEOUT_S):
            raise ChildError(f"the tasks of {len(children)} workers are not distributed")
        for child in children:
            child.send("resume")
            expect(child, "resumed", ANSWER_S)
        samples = self._servers.samples(children, order, HEADRACE, self.source, self.run_s)
        for child in children:
            stop(child)
        return rates(samples, self.source.records)

    def close(self) -> None:
        """Nothing is shared but the topic."""


def tasks_of(child: Child) -> str:
    """The numbers of active and of standby tasks. Errors: ChildError."""
    child.send("tasks")
    return child.line(ANSWER_S)
