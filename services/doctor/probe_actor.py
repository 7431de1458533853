"""Reads the facts of all machines of a Ray cluster: one short-lived actor per machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from ..ray_session import cause_of, gather
from .facts import ClockFacts, MachineFacts, machine_from_json, to_json
from .machine_io import machine_facts, ray_facts
from .ports_io import reach_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_TIMEOUT_S = 60.0
FACTS_TIMEOUT_S = 60.0
CLOCK_SAMPLES = 7


class Probe:
    """Runs on one machine. Its methods return JSON-able values."""

    def now(self) -> float:
        """The clock of this machine."""
        return time.time()

    def facts(self, data_dirs: Sequence[str], ports: Sequence[tuple[str, int]]) -> dict[str, Any]:
        """As `machine_facts`, with the Ray of this machine."""
        found = machine_facts(data_dirs, ports)
        return to_json(msgspec.structs.replace(found, ray=ray_facts(is_worker=True)))

    def reach(self, addresses: Sequence[str]) -> list[dict[str, Any]]:
        """As `reach_facts`."""
        return [to_json(each) for each in reach_facts(addresses)]


def gather_machines(
    ray: Any,
    data_dirs: Sequence[str],
    ports: Mapping[str, Sequence[tuple[str, int]]],
    endpoints: Sequence[str],
) -> tuple[list[MachineFacts], dict[str, str]]:
    """The facts of all live machines of the Ray, and errors by address for machines that gave none.

    `ports` are the listeners of each machine by its address; every machine connects to `endpoints`.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    machines = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    actor = ray.remote(Probe)
    probes = {
        node: actor.options(
            num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        ).remote()
        for node in machines
    }
    started = gather(ray, {node: probe.now.remote() for node, probe in probes.items()}, START_TIMEOUT_S)
    errors = {node: str(value) for node, value in started.items() if isinstance(value, BaseException)}
    live = {node: probe for node, probe in probes.items() if node not in errors}
    calls = {
        node: probe.facts.remote(list(data_dirs), list(ports.get(machines[node], ())))
        for node, probe in live.items()
    }
    answers = gather(ray, calls, FACTS_TIMEOUT_S)
    reached = gather(
        ray, {node: probe.reach.remote(list(endpoints)) for node, probe in live.items()}, FACTS_TIMEOUT_S
    )
    found = list[MachineFacts]()
    for node, answer in answers.items():
        if isinstance(answer, BaseException):
            errors[node] = str(cause_of(answer))
            continue
        reach = reached[node] if not isinstance(reached[node], BaseException) else []
        machine = machine_from_json({**answer, "reach": reach, "address": machines[node]})
        clock = _with_skew(ray, live[node], machine.clock)
        found.append(msgspec.structs.replace(machine, clock=clock))
    for probe in probes.values():
        ray.kill(probe)
    return sorted(found, key=lambda each: each.address), {
        machines[node]: text for node, text in errors.items()
    }


def _with_skew(ray: Any, probe: Any, clock: ClockFacts) -> ClockFacts:
    """The distance of the clocks by the call with the shortest round trip, as in NTP."""
    best_s, skew_s = float("inf"), 0.0
    for _ in range(CLOCK_SAMPLES):
        sent, started = time.time(), time.perf_counter()
        try:
            there: float = ray.get(probe.now.remote(), timeout=START_TIMEOUT_S)
        except ray.exceptions.RayError:
            return clock
        trip_s = time.perf_counter() - started
        if trip_s < best_s:
            best_s, skew_s = trip_s, there - (sent + trip_s / 2)
    return msgspec.structs.replace(clock, skew_s=round(skew_s, 6), skew_error_s=round(best_s / 2, 6))
