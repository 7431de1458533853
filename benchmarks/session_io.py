"""One run of the benchmarks: groups of cells in pairs, warm-ups, preloads, and repeats because of steal."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import machine_io, warm_up_io
from .cells.figures import BYTES_PER_MB, describe
from .constants import FDS, HEADRACE, KAFKA, NODES, PARTITIONS, RSS_MB, THREADS
from .harness import Preloaded
from .harness_io import LocalHarness
from .servers import kafka_io
from .servers.children_io import Children, spawn
from .servers.pool_io import DEFAULT, ServerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .cells.cell import Cell
    from .cells.preload import Preload
    from .group import Group
    from .servers.children_io import Spawn

MOST_STEAL = 0.02
MOST_REPEATS = 2
TOUCH_FULL_BYTES, TOUCH_QUICK_BYTES = 12 << 30, 8 << 30


class Session:
    """Servers, client processes and results of one run; as a context it ends all processes.

    `spawn` starts them, by default as programs of their own.
    """

    def __init__(
        self, *, is_quick: bool, say: Callable[[str], None], profile: str = "", spawn: Spawn = spawn
    ) -> None:
        self.is_quick, self.say = is_quick, say
        cache = kafka_io.cache_home()
        cache.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=cache))
        self.children = Children(self.scratch, spawn)
        self.server_cores, _ = machine_io.split_cores()
        self.pool = ServerPool(self.children, self.scratch, self.server_cores, say, profile)
        self.harness = LocalHarness(self.children, self.scratch, self.pool, say, profile)
        self.runs: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self._preload: Preload | None = None

    def __enter__(self) -> Self:
        self._on_sigterm = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.ExitStack() as ends:  # all of them run, even if some fail
            ends.callback(signal.signal, signal.SIGTERM, self._on_sigterm)
            ends.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            ends.callback(self.children.__exit__, *error)
            for system in self.pool.all_systems:
                ends.callback(system.stop)

    def prepare(self, groups: list[Group], *, warm: bool = True) -> None:
        """Start the servers with default settings that the groups need; touch memory; warm both up."""
        self._is_warm = warm
        needed = {cell.system for group in groups if group.servers == DEFAULT for cell in group.cells}
        if warm and groups:
            free = shutil.disk_usage(self.scratch).free
            size = min(TOUCH_QUICK_BYTES if self.is_quick else TOUCH_FULL_BYTES, free // 2)
            seconds = machine_io.touch_memory(self.scratch, size)
            self.facts["touched_gib"], self.facts["touch_s"] = size >> 30, round(seconds, 1)
            self.say(f"touched {size >> 30} GiB of memory in {seconds:.0f} s")
        self.pool.start(needed & {HEADRACE, KAFKA})
        if warm:
            self._warm_up_servers("kafka_warm_up")

    def run_group(self, group: Group, pairs: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """At least one pair, and `pairs` of them unless `is_over`; results are appended to `runs`.

        Errors: LostDataError, ChildError.
        """
        self.say(f"{group.id}: {group.title}, {pairs} pairs")
        self._use_servers(group)
        self._use_preload(group)
        with contextlib.ExitStack() as stack:
            if not group.is_pinned:
                stack.enter_context(self._unpinned())
            if group.warm_rounds and self._is_warm:
                self._warm_up_cells(group)
            for pair in range(pairs):
                if pair and is_over():
                    self.say(f"{group.id}: no time for more pairs")
                    return
                for cell in group.order(pair):
                    self._run_cell(group, cell.scaled(is_quick=self.is_quick), pair)

    def _run_cell(self, group: Group, cell: Cell, pair: int) -> None:
        for attempt in range(1 + MOST_REPEATS):
            columns, load = machine_io.cpu_columns(), machine_io.load_average()
            figures = cell.run(self.harness)
            if cell.system in self.pool.systems:
                usage = machine_io.sample_all(self.pool.systems[cell.system].node_pids)
                of_servers = {RSS_MB: usage.rss / BYTES_PER_MB, FDS: usage.fds, THREADS: usage.threads}
                figures = {**of_servers, **figures}
            steal = machine_io.steal_share(columns, machine_io.cpu_columns())
            load_after, is_used = machine_io.load_average(), steal <= MOST_STEAL or attempt == MOST_REPEATS
            place = {"group": group.id, "cell": cell.name, "system": cell.system, "pair": pair}
            state = {"load_before": load, "load_after": load_after, "steal": round(steal, 4)}
            self.runs.append({**place, "attempt": attempt, "is_used": is_used, **state, **figures})
            if is_used:
                self.say(f"  {cell.name:<28} {describe(figures)}")
                return
            self.say(f"  {cell.name}: steal {steal:.1%}, repeating")

    def _use_servers(self, group: Group) -> None:
        if group.servers == self.pool.servers:
            return
        self._delete_preload()
        is_new = self.pool.use(group.servers, {cell.system for cell in group.cells})
        if is_new and self._is_warm and not group.warm_rounds:
            self._warm_up_servers("kafka_nodes_warm_up" if group.nodes == NODES else "kafka_upkeep_warm_up")

    def _warm_up_servers(self, fact: str) -> None:
        if KAFKA in self.pool.systems:
            self.facts[fact] = warm_up_io.warm_kafka(self.harness, is_quick=self.is_quick)
        if HEADRACE in self.pool.systems:
            warm_up_io.window(self.harness, HEADRACE)

    def _warm_up_cells(self, group: Group) -> None:
        """Run the group's own cells, those of Kafka several times: the JIT compiles what runs often."""
        for rounds, system in ((group.warm_rounds, KAFKA), (1, HEADRACE)):
            for cell in [cell for cell in group.cells if cell.system == system] * rounds:
                figures = cell.scaled(is_quick=self.is_quick).run(self.harness)
                self.say(f"  warm-up: {cell.name:<19} {describe(figures)}")

    def _use_preload(self, group: Group) -> None:
        """Fill the topics that the group reads, unless the group before read the same."""
        if group.preload != self._preload:
            self._delete_preload()
        self._preload = group.preload
        if group.preload is None:
            return
        for name in sorted({cell.system for cell in group.cells} - self.harness.preloads.keys()):
            topic = self.harness.new_topic(name, PARTITIONS)
            count = group.preload.fill(self.harness, name, topic)
            self.harness.preloads[name] = Preloaded(topic, count)

    def _delete_preload(self) -> None:
        for name, preloaded in self.harness.preloads.items():
            self.pool.systems[name].delete_topic(preloaded.topic)
        self.harness.preloads.clear()

    @contextlib.contextmanager
    def _unpinned(self) -> Iterator[None]:
        """Servers and clients may use all cores meanwhile."""
        harness, pinned = self.harness, self.harness.client_cores
        harness.client_cores = sorted({*self.server_cores, *pinned})
        self.pool.pin(harness.client_cores)
        try:
            yield
        finally:
            harness.client_cores = pinned
            self.pool.pin()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
