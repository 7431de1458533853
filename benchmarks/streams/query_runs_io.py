"""The group `queries`: a worker that counts, and a process that asks it over its query port.

The worker has one core; the process that asks shares the other ones with the broker.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from headrace.benchmarks import machine_io
from headrace.benchmarks.harness import ChildError
from headrace.runtime.ports_io import reserve_ports

from .cells import HEADRACE, PARTITIONS, Input, rates
from .operations import ASKED, ASKER_CPU, QUERIES_PER_S, QUERY_CELLS, QUERY_KEYS, QueryCell
from .servers_io import begin, stop

if TYPE_CHECKING:
    from headrace.benchmarks.servers.children_io import Child

    from .cells import Sizes
    from .servers_io import Servers

RECORDS, QUICK_RECORDS = 6_000_000, 3_000_000
RUN_S, QUICK_RUN_S = 5.0, 2.5  # of CPU time of the worker
LEAST_ASKED = 0.9  # of QUERIES_PER_S
ASKER_START_S = 60.0


class QueryRuns:
    """Runs cells of QUERY_CELLS."""

    def __init__(self, servers: Servers, sizes: Sizes) -> None:
        self._servers = servers
        self.source = Input(QUICK_RECORDS if sizes.is_quick else RECORDS, QUERY_KEYS)
        self.run_s = QUICK_RUN_S if sizes.is_quick else RUN_S

    def run(self, cell: str) -> dict[str, Any]:
        """The rate of the worker, and the latency or the number of the queries."""
        servers, asked = self._servers, QUERY_CELLS[cell]
        broker = servers.broker(HEADRACE)
        servers.fill(HEADRACE, self.source)
        order = servers.order(HEADRACE, "count", self.source.topic)
        order["config.application.server"] = f"127.0.0.1:{reserve_ports(1)[0]}"
        if asked.is_in_memory:
            order["config.default.dsl.store"] = "in_memory"
        broker.create_topic(order["output"], PARTITIONS)
        try:
            with servers.application(HEADRACE) as worker:
                if not asked.keys:
                    begin(worker, order)
                    return self._measured(worker, order)
                asker = servers.children.start("asker", "streams.asker_side", cores=servers.server_cores)
                with servers.children.running(asker):
                    return self._asked(worker, asker, order, asked)
        finally:
            broker.delete_topic(order["output"])
            shutil.rmtree(order["state"], ignore_errors=True)

    def _measured(self, worker: Child, order: dict[str, str]) -> dict[str, Any]:
        samples = self._servers.samples([worker], order, HEADRACE, self.source, self.run_s)
        found = rates(samples, self.source.records)
        stop(worker)
        return found

    def _asked(self, worker: Child, asker: Child, order: dict[str, str], asked: QueryCell) -> dict[str, Any]:
        if asker.line(ASKER_START_S) != "ready":
            raise ChildError("the asking process did not start")
        begin(worker, order)
        rate = 0 if asked.is_latency else QUERIES_PER_S
        asker.send(json.dumps({"order": order, "keys": asked.keys, "rate": rate, "distinct": QUERY_KEYS}))
        if asker.line(ASKER_START_S) != "asking":
            raise ChildError("no query was answered")
        cpu_s = machine_io.cpu_seconds(asker.pid)
        samples = self._servers.samples([worker], order, HEADRACE, self.source, self.run_s)
        cpu_s = machine_io.cpu_seconds(asker.pid) - cpu_s
        asker.send("stop")
        report: dict[str, float] = json.loads(asker.line(ASKER_START_S))
        stop(worker)
        found = rates(samples, self.source.records)
        report[ASKER_CPU] = 100 * cpu_s / (samples[-1].at_s - samples[0].at_s)
        if report[ASKED] < rate * LEAST_ASKED:  # the rate of the worker would say too much
            return report
        return {**found, **report}

    def close(self) -> None:
        """Nothing is shared but the topic."""
