"""One run of the harness: systems, topics, cells with their checks, and what each cell reports."""

from __future__ import annotations

import contextlib
import shutil
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import (
    cells,
    cleaner_io,
    connections_io,
    coordinated_io,
    kafka_io,
    machine_io,
    tools_io,
    upkeep_io,
    warm_up_io,
)
from .children_io import ChildError, Children, LostDataError
from .clusters_io import HeadraceCluster, KafkaCluster
from .failover_io import fail_over
from .group import BARE, HEADRACE, KAFKA, PARTITIONS, RATE, Cell, Group, Servers
from .rates import Rates
from .replicated import NODES
from .reports import describe, total, with_rates, worst
from .systems_io import NO_CONFIGS, Headrace, Kafka, System, drop_cached, listening, move, touch_memory
from .tools_io import KafkaTools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CELL_TIMEOUT_S = 90.0
MOST_STEAL = 0.02
MOST_REPEATS = 2
TOUCH_FULL_BYTES, TOUCH_QUICK_BYTES = 12 << 30, 8 << 30
MB = 1e6


class Session:
    """The systems run as long as the session; a context manager that leaves nothing behind."""

    def __init__(self, *, is_quick: bool, say: Callable[[str], None], profile: str = "") -> None:
        self.is_quick, self.say, self.profile = is_quick, say, profile
        cache = kafka_io.cache_home()
        cache.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=cache))
        self.children = Children(self.scratch)
        self.server_cores, self.client_cores = machine_io.split_cores()
        self.runs: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self._servers = Servers(1)
        self._systems: defaultdict[Servers, dict[str, System]] = defaultdict(dict)
        self._topics = 0
        self.preloaded: dict[str, dict[str, Any]] = {}
        self._loaded_as: dict[str, Any] | None = None
        self._rates = Rates()

    def __enter__(self) -> Self:
        self._on_sigterm = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.ExitStack() as ends:  # each of them, whatever becomes of the others
            ends.callback(signal.signal, signal.SIGTERM, self._on_sigterm)
            ends.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            ends.callback(self.children.__exit__, *error)
            for systems in self._systems.values():
                for system in systems.values():
                    ends.callback(system.stop)

    # --- preparation ------------------------------------------------------------------------------------

    def prepare(self, groups: list[Group], *, warm: bool = True) -> None:
        """Start the systems that the groups need; touch memory; warm both up."""
        needed = {cell.system for group in groups if group.servers == self._servers
                  for cell in group.cells}  # fmt: skip
        self._is_warm = warm
        if warm and groups:
            free = shutil.disk_usage(self.scratch).free
            size = min(TOUCH_QUICK_BYTES if self.is_quick else TOUCH_FULL_BYTES, free // 2)
            seconds = touch_memory(self.scratch, size)
            self.facts["touched_gib"], self.facts["touch_s"] = size >> 30, round(seconds, 1)
            self.say(f"touched {size >> 30} GiB of memory in {seconds:.0f} s")
        if HEADRACE in needed:
            profile = f"{self.profile}.node" if self.profile else ""
            whole = self.children, self.scratch, self.server_cores, profile
            self.systems[HEADRACE] = Headrace(*whole, listening())
        if KAFKA in needed:
            began = time.monotonic()
            self.systems[KAFKA] = Kafka(self.scratch, self.server_cores)
            self.say(f"Kafka {kafka_io.VERSION} is up after {time.monotonic() - began:.1f} s")
            if warm:
                self.facts["kafka_warm_up"] = warm_up_io.warm_kafka(self, is_quick=self.is_quick)
        if HEADRACE in needed and warm:
            warm_up_io.window(self, HEADRACE)

    @property
    def systems(self) -> dict[str, System]:
        """Those of the group that runs now."""
        return self._systems[self._servers]

    @property
    def _nodes(self) -> int:
        return self._servers.nodes

    def _use(self, group: Group) -> None:
        """Start the servers of a group that needs others than those before, which end if they do not last."""
        if group.servers == self._servers:
            return
        self._forget_preload()
        if not self._servers.is_lasting:
            for system in self.systems.values():
                system.stop()
            self.systems.clear()
        self._servers = group.servers
        if self._servers.is_lasting:
            return
        folder = Path(tempfile.mkdtemp(prefix="servers-", dir=self.scratch))
        for name in sorted({cell.system for cell in group.cells}):
            began = time.monotonic()
            self.systems[name] = self.started(name, folder)
            what = "three nodes are" if self._nodes == NODES else "node with other settings is"
            self.say(f"{name}'s {what} up after {time.monotonic() - began:.1f} s")
        if group.warm_rounds or not self._is_warm:
            return
        if KAFKA in self.systems:
            fact = "kafka_nodes_warm_up" if self._nodes == NODES else "kafka_upkeep_warm_up"
            self.facts[fact] = warm_up_io.warm_kafka(self, is_quick=self.is_quick, nodes=self._nodes)
        if HEADRACE in self.systems:
            warm_up_io.window(self, HEADRACE, nodes=self._nodes)

    def started(self, name: str, folder: Path) -> System:
        """Servers of a system as this group needs them, with their data in `folder`."""
        settings = dict(self._servers.settings)
        if name == KAFKA:
            cores = self.server_cores
            settings |= dict(self._servers.kafka_settings)
            return KafkaCluster(folder, cores) if self._nodes == NODES else Kafka(folder, cores, settings)
        whole = self.children, folder, self.server_cores, f"{self.profile}.node" if self.profile else ""
        if self._nodes == NODES:
            return HeadraceCluster(*whole, listens=True)
        return Headrace(*whole, settings | listening())

    # --- groups and cells -------------------------------------------------------------------------------

    def run_group(self, group: Group, pairs: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """The pairs of a group, but one, until `is_over`; results are appended to `runs`.

        Errors: LostDataError, ChildError.
        """
        self.say(f"{group.id}: {group.title}, {pairs} pairs")
        self._use(group)
        self._preload(group)
        if not group.is_pinned:
            self._unpin()
        try:
            if group.warm_rounds and self._is_warm:
                self._warm_up(group)
            for pair in range(pairs):
                if pair and is_over():
                    self.say(f"{group.id}: no time for more pairs")
                    return
                for cell in cells.order(group, pair):
                    self._run_cell(group, cell, pair)
        finally:
            if not group.is_pinned:
                self._pin()

    def _warm_up(self, group: Group) -> None:
        """By its own cells, Kafka's more than once: what a JVM does over and over it does faster."""
        for rounds, system in ((group.warm_rounds, KAFKA), (1, HEADRACE)):
            for cell in [cell for cell in group.cells if cell.system == system] * rounds:
                found = self._once(cell, cells.scaled(cell.spec, is_quick=self.is_quick))
                self.say(f"  warm-up: {cell.name:<19} {describe(found)}")

    def _run_cell(self, group: Group, cell: Cell, pair: int) -> None:
        for attempt in range(1 + MOST_REPEATS):
            columns, load = machine_io.cpu_columns(), machine_io.load_average()
            found = self._once(cell, cells.scaled(cell.spec, is_quick=self.is_quick))
            if cell.system in self.systems:
                usage = machine_io.sample_all(self.systems[cell.system].node_pids)
                found = {"rss_mb": usage.rss / MB, "fds": usage.fds, "threads": usage.threads, **found}
            steal = machine_io.steal_share(columns, machine_io.cpu_columns())
            load_after, is_used = machine_io.load_average(), steal <= MOST_STEAL or attempt == MOST_REPEATS
            place = {"group": group.id, "cell": cell.name, "system": cell.system, "pair": pair}
            state = {"load_before": load, "load_after": load_after, "steal": round(steal, 4)}
            self.runs.append({**place, "attempt": attempt, "is_used": is_used, **state, **found})
            if is_used:
                break
            self.say(f"  {cell.name}: steal {steal:.1%}, again")
        self.say(f"  {cell.name:<28} {describe(found)}")

    def _once(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        way = getattr(self, f"_{cell.kind}_cell")
        return way(cell, spec)

    def _produce_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system, topic = self.systems[cell.system], self.new_topic(cell.system, PARTITIONS)
        try:
            with self.profiled(system):
                (made,) = self.work([{**spec, "loop": "produce"}], system, topic, profile=True)
            if "absent" in made:
                return made
            found = with_rates(made)
            if made["failed"]:
                raise LostDataError(f"{made['failed']} records failed in {cell.name}")
            if isinstance(system, HeadraceCluster | KafkaCluster):
                found["in_sync"] = min(place.in_sync for place in system.places(topic))
            self.verify(system, topic, made["expected"])
        finally:
            system.delete_topic(topic)
        self._rates.produced(cell.system, self._nodes, spec, found[RATE])
        return found

    def _consume_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system, loaded = self.systems[cell.system], self.preloaded[cell.system]
        consumers = spec.get("consumers", 1)
        order = {**spec, "loop": "consume", "count": loaded["count"], "is_share": consumers > 1}
        shares = [list(range(start, PARTITIONS, consumers)) for start in range(consumers)]
        with self.profiled(system):
            reports = self.work(
                [{**order, "partitions": share} for share in shares], system, loaded["topic"], profile=True
            )
        if "absent" in reports[0]:
            return reports[0]
        read = total(reports)
        whole = loaded["count"] - read["first"]
        if read["read"] != loaded["count"] or read["bytes"] != whole * spec["size"]:
            raise LostDataError(f"{cell.name} read {read['read']} records of {loaded['count']}: {read}")
        found = with_rates(read)
        self._rates.consumed(cell.system, self._nodes, spec, found[RATE])
        return found

    def _openloop_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system = self.systems[cell.system]
        topic = self.new_topic(cell.system, spec["partition_count"])
        if "rate" not in spec:
            spec = {**spec, "rate": self._rates.share(self._nodes, spec)}
        timed = int(spec["rate"] * (spec["warm_s"] + spec["seconds"])) - int(spec["rate"] * spec["warm_s"])
        patience_s = spec["warm_s"] + spec["seconds"] + 15
        readers = spec.get("readers", 1)
        orders = [{**spec, "loop": "follow", "timed": timed, "patience_s": patience_s}] * readers
        if spec.get("cold"):
            loaded = self.preloaded[cell.system]
            drop_cached(self.folder(cell.system), loaded["topic"])
            orders.append({"loop": "reread", "face": "consume" if cell.system == KAFKA else "poll",
                           "partitions": list(range(PARTITIONS)), "count": loaded["count"],
                           "folder": str(self.folder(cell.system)), "topic": loaded["topic"],
                           "seconds": spec["seconds"] + spec["warm_s"]})  # fmt: skip
        try:
            with contextlib.ExitStack() as stack:
                if "upkeep" in spec:
                    orders.append(stack.enter_context(upkeep_io.at_work(self, cell.system, spec)))
                if "connections" in spec:
                    orders.append(stack.enter_context(connections_io.at_work(self, cell.system, spec)))
                stack.enter_context(self.profiled(system))
                reports = self.work([*orders, {**spec, "loop": "openloop"}], system, topic, profile=True)
                visited = connections_io.figures(system, orders[-1], reports[-2])
            usage = machine_io.sample_all(system.node_pids)
        finally:
            system.delete_topic(topic)
        sent, follows = reports[-1], reports[:readers]
        for report in follows:
            if report["arrived"] != timed:
                raise LostDataError(f"{cell.name}: {report['arrived']} of {timed} records arrived")
        found = with_rates(sent) | visited
        found |= {f"e2e_{name}_ms": value for name, value in worst(follows).items()}
        found["curve"] = follows[0]["e2e"]["curve"]
        span_s = max(report["span_s"] for report in follows)
        found["fan_out_mb_per_s"] = (
            sum(report["bytes"] for report in follows) / span_s / MB if span_s else 0.0
        )
        found |= {"rss_mb": usage.rss / MB, "fds": usage.fds, "threads": usage.threads, "rate": spec["rate"]}
        if spec.get("cold"):
            found["cold_mb_per_s"] = reports[readers]["bytes"] / reports[readers]["seconds"] / MB
        if "upkeep" in spec:
            cold_bytes, kept = reports[readers]["bytes"], reports[readers + 1]
            found |= upkeep_io.figures(cell.name, kept, spec["seconds"], cold_bytes)
        return found

    def _ping_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system = self.systems[cell.system]
        topic = self.new_topic(cell.system, spec["partition_count"])
        try:
            with self.profiled(system):
                (found,) = self.work([{**spec, "loop": "ping"}], system, topic, profile=True)
        finally:
            system.delete_topic(topic)
        return {**with_rates(found), "curve": found["e2e"]["curve"]}

    def _window_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system, topic = self.systems[cell.system], self.new_topic(cell.system, PARTITIONS)
        try:
            with self.profiled(system):
                reports = self.work(
                    [{**spec, "loop": "window"}] * spec["producers"], system, topic, profile=True
                )
        finally:
            system.delete_topic(topic)
        found = with_rates(total(reports))
        names = ("p50", "p99", "max")
        return found | {f"ack_{n}_ms": statistics.median(r["ack"][n] for r in reports) for n in names}

    def _raw_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        system, topic = self.systems[cell.system], self.new_topic(cell.system, PARTITIONS)
        try:
            with self.profiled(system):
                (found,) = self.work([{**spec, "loop": "raw"}], system, topic, profile=True)
            self.verify(system, topic, {"count": found["sent"], "checksum": None})
        finally:
            system.delete_topic(topic)
        return with_rates(found)

    def _transact_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        with self.profiled(self.systems[cell.system]):
            return with_rates(coordinated_io.transact(self, cell, spec))

    def _commit_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        with self.profiled(self.systems[cell.system]):
            return coordinated_io.commit(self, cell, spec)

    def _rebalance_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        with self.profiled(self.systems[cell.system]):
            return coordinated_io.rebalance(self, cell, spec)

    def _memory_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        return connections_io.memory(self, cell, spec)

    def _tool_produce_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        return tools_io.produce(self, cell, spec)

    def _tool_consume_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        return tools_io.consume(self, cell, spec)

    def _failover_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        return fail_over(self, cell, spec)

    def _clean_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        return cleaner_io.clean(self, cell, spec)

    def _bare_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        arguments = (str(self.scratch), spec["mode"])
        server = self.children.start("bare", "loops.bare", *arguments, cores=self.server_cores)
        try:
            port = int(server.line(20).removeprefix("ready "))
            order = {**spec, "loop": "bareclient", "port": port, "server_pids": [server.pid]}
            (found,) = self.children.work([order], cores=self.client_cores, timeout_s=CELL_TIMEOUT_S)
        finally:
            self.children.end(server)
        return with_rates(found)

    def _local_cell(self, cell: Cell, spec: dict[str, Any]) -> dict[str, Any]:
        order = {**spec, "directory": str(self.scratch)}
        (found,) = self.children.work([order], cores=self.client_cores, timeout_s=CELL_TIMEOUT_S)
        return with_rates(found)

    def profiled(self, system: System) -> contextlib.AbstractContextManager[None]:
        """While it lasts the nodes of headrace sample themselves, when profiles were asked for."""
        return _Profiled(self, system)

    @cached_property
    def tools(self) -> KafkaTools:
        """Kafka's own, in a JVM of the session's."""
        return KafkaTools(self)

    # --- parts of cells ---------------------------------------------------------------------------------

    def work(
        self,
        orders: list[dict[str, Any]],
        system: System,
        topic: str,
        *,
        profile: bool = False,
        when_ready: Callable[[], None] | None = None,
    ) -> list[dict[str, Any]]:
        """What clients report: the system's own, or those of the system that is the order's `client`."""
        common = {"topic": topic, "server_pids": system.cpu_pids}
        orders = [{**common, **_reached(system, order.get("client")), **order} for order in orders]
        if profile and self.profile:
            for number, order in enumerate(orders):
                order["profile"] = f"{self.profile}.{order['loop']}-{number}"
        return self.children.work(
            orders, cores=self.client_cores, timeout_s=CELL_TIMEOUT_S, when_ready=when_ready
        )

    def verify(self, system: System, topic: str, expected: dict[str, Any]) -> None:
        """Read all back in processes of their own; count and checksum must agree. Errors: LostDataError."""
        shares = [
            list(range(part, PARTITIONS, len(self.client_cores))) for part in range(len(self.client_cores))
        ]
        orders = [{"loop": "verify", "partitions": share} for share in shares if share]
        read = self.work(orders, system, topic)
        count, checksum = sum(r["count"] for r in read), sum(r["checksum"] for r in read)
        if count != expected["count"] or expected["checksum"] not in (None, checksum):
            raise LostDataError(
                f"{system.name}: sent {expected}, read {count} records with checksum {checksum}"
            )

    def _preload(self, group: Group) -> None:
        """Fill what a group reads, unless it is there from the group before; forget what it does not."""
        if group.preload != self._loaded_as:
            self._forget_preload()
        self._loaded_as = group.preload
        if group.preload is not None:
            for name in sorted({cell.system for cell in group.cells} - self.preloaded.keys()):
                self._fill(name, **group.preload)

    def _forget_preload(self) -> None:
        """Of the servers that are used now."""
        for name, loaded in self.preloaded.items():
            self.systems[name].delete_topic(loaded["topic"])
        self.preloaded.clear()

    def _fill(
        self, name: str, size: int, count: int, more: int = 0, acks: str = "", **transactions: int
    ) -> None:
        system, topic = self.systems[name], self.new_topic(name, PARTITIONS)
        if acks:  # the same batches in both
            made = self.tools.produce(system, topic, {"size": size, "count": count, "acks": acks})
            self.preloaded[name] = {"topic": topic, "count": made["records"]}
            return
        spec = {"size": size, "count": count if name == KAFKA else more}
        if transactions:
            order = coordinated_io.transacting(spec | transactions, topic)
            (made,) = self.work([order], system, topic)
            self.preloaded[name] = {"topic": topic, "count": made["expected"]["count"]}
            coordinated_io.read_back(self, system, topic, made["expected"])
            return
        order = {**spec, "loop": "produce", "face": "produce" if name == KAFKA else "send_many"}
        (made,) = self.work([order], system, topic)
        self.preloaded[name] = {"topic": topic, "count": made["expected"]["count"]}
        self.verify(system, topic, made["expected"])

    def new_topic(self, name: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> str:
        """Its name, the same in no two cells."""
        self._topics += 1
        topic = f"bench{self._topics}"
        self.systems[name].create_topic(topic, partitions, configs=configs)
        return topic

    def folder(self, name: str) -> Path:
        """Where the partitions of a system's one node lie."""
        folder = self.systems[name].data_dir
        return folder / "node" if name == HEADRACE else folder

    def _unpin(self) -> None:
        self._pinned = self.client_cores
        self.client_cores = sorted({*self.server_cores, *self.client_cores})
        for system in self.systems.values():
            move(system, self.client_cores)

    def _pin(self) -> None:
        self.client_cores = self._pinned
        for system in self.systems.values():
            move(system, self.server_cores)


class _Profiled:
    """While it lasts the headrace node samples itself, when profiles were asked for."""

    def __init__(self, session: Session, system: System) -> None:
        self._system = system if session.profile and isinstance(system, Headrace | HeadraceCluster) else None

    def __enter__(self) -> None:
        if self._system is not None:
            self._system.begin_profile()

    def __exit__(self, *error: object) -> None:
        if self._system is not None:
            self._system.end_profile()


def _reached(system: System, client: str | None) -> dict[str, Any]:
    """Which client a loop uses, and its address."""
    if client == KAFKA:
        return {"system": KAFKA, "bootstrap": system.kafka_bootstrap}
    return {"system": system.name, "bootstrap": system.bootstrap}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


__all__ = ["BARE", "ChildError", "LostDataError", "Session"]
