"""A scenario, and its run on one system."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headrace.runtime.waiting_io import until

from .java_io import JavaTools, Printed
from .systems_io import System

SETTLE_S = 5.0


class Rig(NamedTuple):
    """The systems that a scenario needs: 1 or 3 nodes of each; or one with users and an authorizer."""

    nodes: int = 1
    is_secured: bool = False


@dataclass(frozen=True)
class Scenario:
    """Requests of one `client`. Both systems run `play`, each with its own scene; `play_pair` gets both
    scenes, Kafka's first."""

    client: str
    title: str
    play: Callable[[Scene], None] | None = None
    play_pair: Callable[[tuple[Scene, Scene]], None] | None = None
    rig: Rig = field(default_factory=Rig)

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.client}/{self.title}"


@dataclass
class Scene:
    """One run of a scenario on one system."""

    system: System
    tools: JavaTools
    scenario: Scenario
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self.system.bootstrap

    @property
    def topic(self) -> str:
        """A name that no other scenario uses, for topics, groups and transactional ids."""
        return re.sub(r"[^a-z0-9]+", "-", self.scenario.name.lower())

    def note(self, label: str, value: Any) -> None:
        """Record a value that both systems should have in common; labels are unique."""
        assert label not in self.notes, label
        self.notes[label] = value

    def until(self, request: Callable[[], Any], text: str, times: int = 1) -> Any:
        """The first response in which `text` occurs `times` times, or the last one: a broker applies the
        controller's records later than the controller acknowledges them."""
        responses: list[Any] = []

        def has_text() -> bool:
            responses[:] = [request()]
            return str(responses).count(text) >= times

        until(has_text, SETTLE_S)
        return responses[0]

    def tool(self, main_class: str, *arguments: str, given: str = "", timeout_s: int = 60) -> Printed:
        """Run one of Kafka's Java tools; see `java_io`."""
        return self.tools.run(main_class, *arguments, given=given, timeout_s=timeout_s)

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """An empty folder."""
        with tempfile.TemporaryDirectory() as path:
            yield path

    @contextlib.contextmanager
    def file(self, text: str) -> Iterator[str]:
        """A file with this text."""
        with self.folder() as folder:
            path = Path(folder) / "given"
            path.write_text(text)
            yield str(path)

    def restart(self) -> None:
        """Stop the system cleanly and start it."""
        self.system.stop()
        self.system.start()


ALL: list[Scenario] = []


def pair(
    client: str, title: str
) -> Callable[[Callable[[tuple[Scene, Scene]], None]], Callable[[tuple[Scene, Scene]], None]]:
    """As `scenario`, for a function that uses both systems."""

    def add(play: Callable[[tuple[Scene, Scene]], None]) -> Callable[[tuple[Scene, Scene]], None]:
        _add(Scenario(client, title, play_pair=play))
        return play

    return add


def _add(new: Scenario) -> None:
    assert new.name not in {each.name for each in ALL}, new.name
    ALL.append(new)


def scenario(
    client: str, title: str, *, nodes: int = 1, is_secured: bool = False
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Add a function to `ALL` as a scenario."""

    def add(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
        _add(Scenario(client, title, play, rig=Rig(nodes, is_secured)))
        return play

    return add
