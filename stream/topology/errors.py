"""TopologyError, with the line of user code that built the wrong part of the topology."""

from __future__ import annotations

import sys
from typing import NamedTuple

_OURS = __name__.rsplit(".", 2)[0]  # headrace.stream


class Origin(NamedTuple):
    """The line of user code that added a node or a store."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller() -> Origin:
    """The innermost line outside stream/ that is being executed."""
    frame = sys._getframe(1)  # noqa: SLF001  # the documented way that needs no list of frames
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)


class TopologyError(ValueError):
    """The topology is invalid. The text ends with the file and line that built the invalid part."""

    def __init__(self, problem: str, origin: Origin | None = None) -> None:
        self.problem = problem
        self.origin = origin or caller()
        super().__init__(f"{problem} ({self.origin})")

    def __reduce__(self) -> tuple[type[TopologyError], tuple[str, Origin]]:
        return type(self), (self.problem, self.origin)
