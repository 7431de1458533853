"""The base class of all cells. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..constants import HEADRACE, KAFKA, QUICK_SHARE

if TYPE_CHECKING:
    from ..harness import Harness


@dataclass(frozen=True)
class Cell(ABC):
    """One measurement of one system. `spec`: its parameters, most of them for the client processes."""

    name: str
    system: str
    spec: dict[str, Any] = field(default_factory=dict)

    reports: ClassVar[frozenset[str]] = frozenset()  # the metrics that a run may report

    @abstractmethod
    def run(self, harness: Harness) -> dict[str, Any]:
        """Measure once; figures by name. Errors: LostDataError, ChildError."""

    def scaled(self, *, is_quick: bool) -> Self:
        """This cell as the mode runs it: QUICK takes a share of counts and seconds.

        Preloaded topics have the same size in both modes: reading less would be over at once.
        """
        if not is_quick:
            return self
        scaled: dict[str, Any] = {name: type(self.spec[name])(self.spec[name] * QUICK_SHARE)
                  for name in ("count", "seconds") if name in self.spec}  # fmt: skip
        return replace(self, spec={**self.spec, **scaled})


def both(cell: type[Cell], spec: dict[str, Any], name: str = "") -> tuple[Cell, Cell]:
    """The same cell for Kafka and for headrace, named after the system and `name`."""
    suffix = f" {name}" if name else ""
    return cell(f"{KAFKA}{suffix}", KAFKA, spec), cell(f"{HEADRACE}{suffix}", HEADRACE, spec)
