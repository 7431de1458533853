"""Collects the parts of a bundle on all machines of a Ray cluster: one short-lived actor per machine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.tracing.control_io import call_context
from ..doctor.facts import to_json
from ..doctor.machine_io import machine_facts
from ..ray_session import cause_of, gather
from .machine_io import known_secrets, machine_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Collector:
    """Runs on one machine."""

    def collect(self, data_dirs: Sequence[str]) -> tuple[dict[str, str], set[str], dict[str, Any]]:
        """Texts by path, known secrets, and the facts of the doctor."""
        files = machine_files(data_dirs, (), (), self._log_folders())
        return files, known_secrets(data_dirs, ()), to_json(machine_facts(data_dirs))

    def _log_folders(self) -> list[str]:
        import ray

        with contextlib.suppress(AttributeError):
            node = ray._private.worker.global_worker.node  # noqa: SLF001 - Ray has no other way
            return [str(Path(node.get_session_dir_path()) / "logs")] if node is not None else []
        return []


def collect_machines(
    ray: Any, data_dirs: Sequence[str], timeout_s: float
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """The result of `collect` by the address of the machine, and errors of machines without one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    machines = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    dead = {node["NodeManagerAddress"] for node in ray.nodes() if not node["Alive"]} - set(machines.values())
    actor = ray.remote(Collector)
    collectors = {
        address: actor.options(
            num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        ).remote()
        for node, address in machines.items()
    }
    calls = {address: each.collect.remote(list(data_dirs)) for address, each in collectors.items()}
    answers = gather(ray, calls, timeout_s)
    for each in collectors.values():
        ray.kill(each)
    errors = {a: str(cause_of(each)) for a, each in answers.items() if isinstance(each, BaseException)}
    errors |= dict.fromkeys(dead, "the machine is not in the Ray")
    return {a: each for a, each in answers.items() if a not in errors}, errors


def server_stacks(ray: Any, namespace: str, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
    """The stacks of all threads of each server by name, or the exception."""
    calls = {name: ray.get_actor(name, namespace).stacks.remote(**call_context()) for name in names}
    return gather(ray, calls, timeout_s)
