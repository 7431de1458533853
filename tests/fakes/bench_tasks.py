"""Tasks for the worker processes of a benchmark, which import this module."""

import os
import signal
from dataclasses import dataclass
from typing import Any

from headrace.protocol.errors import UnknownTopicOrPartitionError
from headrace.services.bench.pacing_io import now_ns, sleep_until
from headrace.services.bench.worker_pool import WorkerLink


class StubbornError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, *, where: str) -> None:
        super().__init__(f"stubborn at {where}")


@dataclass
class Count:
    """Counts to `records` and reports its start."""

    records: int

    def run(self, link: WorkerLink) -> Any:
        start_ns = link.start(self.records * 10)
        began_ns = now_ns()
        link.progress(self.records, self.records * 2, 1)
        return start_ns, began_ns, os.getpid()


def poll() -> None:
    """Wait as long as a consumer's poll between two checks of its goal; no records arrive."""
    sleep_until(now_ns() + 1_000_000)


@dataclass
class ReachGoal:
    """Waits until its group has read the number of records that the parent sends."""

    def run(self, link: WorkerLink) -> Any:
        link.start()
        while (goal := link.goal()) is None:
            poll()
        link.progress(goal, 0)
        return goal, link.group_records()


@dataclass
class Fail:
    """Ends with an error, before or after the start."""

    how: str

    def run(self, link: WorkerLink) -> Any:
        if self.how == "early":
            raise UnknownTopicOrPartitionError("no such topic")
        link.start()
        if self.how == "stubborn":
            raise StubbornError(where="the end")
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(self.how)


@dataclass
class Forever:
    """Never ends by itself; its record count is its process id."""

    def run(self, link: WorkerLink) -> Any:
        link.progress(os.getpid(), 0)
        link.start()
        while True:
            signal.pause()
