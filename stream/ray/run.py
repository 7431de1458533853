"""What describes one run of an application on Ray, and what its processes say of themselves. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config import WorkersConfig


@dataclass(frozen=True, kw_only=True)
class Run:
    """Travels to the supervisor and to each worker. `program` is a Program.

    `bootstrap` is what the user gave, or None; then the addresses are searched for, on this Ray, under the
    name `cluster`, and `known` are those at the start. `app_config` overrides that of the application.
    `sources` are the names of its source topics.
    """

    application_id: str
    run_id: str
    program: Any
    config: WorkersConfig
    bootstrap: str | None
    known: str
    cluster: str | None
    threads: int | None = None
    app_config: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    commit_every_ms: int = 0
    query_secret: str = field(default="", repr=False)  # made for this run, if the application has none

    def other_than(self, run: Run) -> str | None:
        """The name of something that differs in another run of the application, beside its number of workers
        and a pickled program; None if nothing does."""
        names = ("threads", "app_config", "resources", "runtime_env", "bootstrap", "cluster")
        differing = (name for name in names if getattr(self, name) != getattr(run, name))
        mine, other = self.config.to_mapping(), run.config.to_mapping()
        keys = (name for name in mine if name != "workers" and mine[name] != other[name])
        if self.program.target != run.program.target:
            return "program"
        return next(iter((*differing, *keys)), None)


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a worker. `version` grows with each change of `state`, a state of its instance.

    `has_ended`: its instance is closed; `error`: why, empty if it was stopped. `ends_application`: the other
    workers have to end, too.
    """

    version: int
    state: str
    has_ended: bool = False
    error: str = ""
    ends_application: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


def describe_error(error: BaseException) -> str:
    """The error and its causes, on one line."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__
    parts = [f"{type(each).__name__}: {' '.join(str(each).split())}".removesuffix(": ") for each in chain]
    return "; because of ".join(parts)
