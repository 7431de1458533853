"""Which log dirs get no new logs: cordoned.log.dirs (KIP-1066)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .log_dir import LogDir

EVERYTHING = "*"


class Cordon:
    """Of one node: what its file says, until the metadata says something else."""

    __slots__ = ("_configured", "paths")

    def __init__(self, configured: Iterable[str]) -> None:
        self.paths = self._configured = frozenset(configured)

    def change(self, paths: frozenset[str] | None) -> bool:
        """Cordon these dirs, * for all; None for what was configured. Whether that is news."""
        before, self.paths = self.paths, self._configured if paths is None else paths
        return before != self.paths

    def holds(self, log_dir: LogDir) -> bool:
        """Whether the dir gets no new logs while there is another one."""
        return log_dir.path in self.paths or EVERYTHING in self.paths

    def ids(self, log_dirs: Iterable[LogDir]) -> tuple[bytes, ...]:
        """The ids of those of these dirs that are cordoned."""
        return tuple(each.directory_id for each in log_dirs if each.directory_id and self.holds(each))
