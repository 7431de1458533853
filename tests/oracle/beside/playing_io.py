"""Plays a scenario on both systems at once and compares what they noted."""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .comparing import Difference, count, differences
from .normal import Normal
from .scene import Scene

if TYPE_CHECKING:
    from .java_io import JavaTools
    from .scene import Scenario
    from .systems_io import System

TIMEOUT_S = 180.0
RAISED = "raised"


@dataclass
class Outcome:
    """One scenario, played. `broken`: why it says nothing, since it did not work on Kafka itself; `noted`:
    what was seen of Kafka."""

    scenario: Scenario
    values: int = 0
    differences: tuple[Difference, ...] = ()
    unexplained: tuple[Difference, ...] = ()
    broken: str = ""
    noted: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Player:
    """Two systems, each with a JVM for Kafka's tools."""

    def __init__(self, kafka: System, other: System, tools: tuple[JavaTools, JavaTools]) -> None:
        self.systems, self._tools = (kafka, other), tools

    def play(self, scenario: Scenario) -> Outcome:
        """Both at once; neither hangs it for longer than TIMEOUT_S."""
        began = time.monotonic()
        both: list[dict[str, Any]] = [{RAISED: "it did not end in time"} for _ in self.systems]

        def one(number: int) -> None:
            both[number] = self._notes(number, scenario)

        threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, began + TIMEOUT_S - time.monotonic()))
        kafka, other = both
        seconds = time.monotonic() - began
        if RAISED in kafka:
            return Outcome(scenario, broken=kafka[RAISED], seconds=seconds)
        if not kafka:
            return Outcome(scenario, broken="it noted nothing", seconds=seconds)
        if RAISED in other:  # what it did not come to is not absent for a reason of its own
            other = {**kafka, **other}
            kafka = {**kafka, RAISED: "nothing"}
        found = tuple(differences(scenario.name, kafka, other))
        return Outcome(scenario, count(kafka), found, noted=kafka, seconds=seconds)

    def _notes(self, number: int, scenario: Scenario) -> dict[str, Any]:
        system = self.systems[number]
        system.tap.who = scenario.client
        scene = Scene(system, self._tools[number], scenario)
        raised = ""
        try:
            scenario.play(scene)
        except BaseException as error:  # noqa: BLE001 - whatever a client raises is what it saw
            last = traceback.extract_tb(error.__traceback__)
            place = next(each for each in reversed(last) if "scenarios" in each.filename)
            raised = f"{type(error).__name__}: {error} at {place.line}"
        normal = Normal(
            ports={system.tap.port: "broker", system.tap.target: "behind the broker"},
            paths={str(system.log_dir): "log dir"},
            now_ms=int(time.time() * 1000),
        )
        return normal.of({**scene.notes, **({RAISED: raised} if raised else {})})
