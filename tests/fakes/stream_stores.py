"""Store builders for tests of topologies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class AnyStore:
    """A store builder that builds nothing."""

    name: str
    is_logged: bool = True
    is_cached: bool = False
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int = 0
    history_retention_ms: int = 0

    @property
    def is_windowed(self) -> bool:
        """Whether the store has a retention."""
        return self.retention_ms > 0

    def build(self) -> Any:
        """Not used here."""
        return None


class AnyProcessor:
    """A custom processor that does nothing."""

    def process(self, record: Any) -> None:
        """Ignore the record."""
