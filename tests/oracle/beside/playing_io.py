"""Runs a scenario on both systems in parallel, and compares their notes."""

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .comparing import Difference, count, differences
from .java_io import JavaTools
from .normal import Normal
from .scene import Scenario, Scene
from .systems_io import System

TIMEOUT_S = 180.0
RAISED = "raised"


@dataclass
class Outcome:
    """The result of a scenario. `broken`: how it failed on Kafka itself; `noted`: Kafka's notes."""

    scenario: Scenario
    values: int = 0
    differences: tuple[Difference, ...] = ()
    unexplained: tuple[Difference, ...] = ()
    broken: str = ""
    noted: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Player:
    """Both systems, each with a JVM for Kafka's tools."""

    def __init__(self, kafka: System, other: System, tools: tuple[JavaTools, JavaTools]) -> None:
        self.systems, self._tools = (kafka, other), tools

    def play(self, scenario: Scenario) -> Outcome:
        """Run on both in parallel, for TIMEOUT_S at most."""
        began = time.monotonic()
        scenes = [
            Scene(system, tools, scenario) for system, tools in zip(self.systems, self._tools, strict=True)
        ]
        raised = [f"it did not end within {TIMEOUT_S:.0f} s"] * 2
        for system in self.systems:
            for tap in system.taps.values():
                tap.client = scenario.client

        def one(number: int) -> None:
            raised[number] = _raised(lambda: scenario.play(scenes[number]))

        def both() -> None:
            raised[:] = [_raised(lambda: scenario.play_pair((scenes[0], scenes[1])))] * 2

        threads = [threading.Thread(target=both, daemon=True)]
        if scenario.play is not None:
            threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, began + TIMEOUT_S - time.monotonic()))
        return _compared(scenes, raised, time.monotonic() - began)


def _raised(call: Callable[[], None]) -> str:
    """The exception of a scenario and its line; "" if there was none."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - any exception is compared
        last = traceback.extract_tb(error.__traceback__)
        place = next(each for each in reversed(last) if "scenarios" in each.filename)
        return f"{type(error).__name__}: {error} at {place.line}"
    return ""


def _compared(scenes: list[Scene], raised: list[str], seconds: float) -> Outcome:
    scenario = scenes[0].scenario
    kafka, other = map(_normalized, scenes)
    if raised[0] or not kafka:
        return Outcome(scenario, broken=raised[0] or "it has no notes", seconds=seconds)
    if raised[1]:  # notes after the exception are not differences of their own
        kafka, other = {**kafka, RAISED: "nothing"}, {**kafka, **other, RAISED: raised[1]}
    found = tuple(differences(scenario.name, kafka, other))
    return Outcome(scenario, count(kafka), found, noted=kafka, seconds=seconds)


def _normalized(scene: Scene) -> dict[str, Any]:
    """The notes of a scene, normalized."""
    system = scene.system
    normal = Normal(
        ports=_names_of_ports(system),
        paths={
            **{str(path): "second log dir" for path in system.second_dirs.values()},
            **{str(path): "log dir" for path in system.log_dirs.values()},
        },
        now_ms=int(time.time() * 1000),
    )
    found: dict[str, Any] = normal.of(dict(scene.notes))
    return found


def _names_of_ports(system: System) -> dict[int, str]:
    names = {}
    for number, tap in system.taps.items():
        name = "broker" if len(system.taps) == 1 else f"broker {number}"
        names |= {tap.port: name, tap.target: f"behind the {name}"}
    names |= {port: f"{listener} of the broker" for listener, port in system.ports.items()}
    return names
