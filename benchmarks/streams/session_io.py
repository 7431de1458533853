"""One run of `make bench-streams`: both brokers with the same records, each application on one core."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from typing import TYPE_CHECKING, Any

from headrace.benchmarks import machine_io
from headrace.benchmarks.harness import LostDataError

from .cells import JAVA, PARTITIONS, PEAK_MB, QUIX, SECONDS, Group, Input, rates, rounds
from .servers_io import RUN_TIMEOUT_S, Servers, begin, describe, stop

if TYPE_CHECKING:
    from headrace.benchmarks.servers.children_io import Child

    from .cells import Sizes


class Session:
    """Runs the groups of cells.py."""

    def __init__(self, servers: Servers, sizes: Sizes) -> None:
        self._servers, self._sizes = servers, sizes

    def run(self, group: Group) -> list[dict[str, Any]]:
        """The runs of a group. Errors: ChildError, LostDataError."""
        runs = []
        with contextlib.ExitStack() as jvms:
            java = jvms.enter_context(self._servers.application(JAVA)) if JAVA in group.systems else None
            for pair, cell in rounds(group.systems, self._sizes):
                system = group.system_of(cell)
                if pair < 0 and (system == QUIX or group.grows):
                    continue  # a process of its own for each run: nothing to warm up
                context = (
                    contextlib.nullcontext(java) if system == JAVA else self._servers.application(system)
                )
                with context as child:
                    assert child is not None
                    found = self._run(child, group, cell)
                self._servers.say(f"{group.id} {pair + 1}: {cell}: {describe(found)}")
                if pair >= 0:
                    runs.append({"group": group.id, "pair": pair, "cell": cell, "is_used": True, **found})
        return runs

    def _run(self, child: Child, group: Group, cell: str) -> dict[str, Any]:
        servers, system = self._servers, group.system_of(cell)
        broker, source = servers.broker(system), group.input(self._sizes, cell)
        servers.fill(system, source)
        order = servers.order(system, group.workload, source.topic, guarantee=group.guarantee)
        order["commit"] = str(group.commit_ms)
        if group.workload == "join":
            servers.fill(system, group.table())
            order["table"] = group.table().topic
        topics = [order["output"]]
        if group.workload == "restore":
            order["input"] = order["output"].replace("out", "empty")
            topics += [order["input"], f"{order['application']}-latest-changelog"]
            servers.fill(system, source, topics[-1])
        for topic in topics[:2]:
            broker.create_topic(topic, PARTITIONS)
        try:
            if group.workload == "restore":
                return restore(child, order, source)
            return self._process(child, order, system, source, is_whole=group.grows)
        finally:
            for topic in topics:
                broker.delete_topic(topic)
            shutil.rmtree(order["state"], ignore_errors=True)

    def _process(
        self, child: Child, order: dict[str, str], system: str, source: Input, *, is_whole: bool
    ) -> dict[str, Any]:
        """`is_whole`: the whole input is processed, and its rate does not count."""
        begin(child, order)
        run_s = math.inf if is_whole else self._sizes.run_s
        samples = self._servers.samples([child], order, system, source, run_s)
        peak = machine_io.sample(child.pid).peak / 1e6
        stop(child)
        if not self._servers.broker(system).end_offset(order["output"]):
            raise LostDataError(f"{order['application']} wrote nothing")
        found = {"records": source.records} if is_whole else rates(samples, source.records)
        return {**found, PEAK_MB: peak}


def restore(child: Child, order: dict[str, str], source: Input) -> dict[str, Any]:
    """The time from the start of an application without files until its stores are restored."""
    started, cpu_s = time.monotonic(), machine_io.cpu_seconds(child.pid)
    begin(child, order, RUN_TIMEOUT_S)
    found = {
        SECONDS: time.monotonic() - started,
        "cpu_s": machine_io.cpu_seconds(child.pid) - cpu_s,
        "records": source.records,
        PEAK_MB: machine_io.sample(child.pid).peak / 1e6,
    }
    stop(child)
    return found
