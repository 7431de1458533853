"""Descriptions of stores in a topology, which make the store of each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class StoreKind(Enum):
    """The interface of a store."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    VERSIONED_KEY_VALUE = "versioned key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    SESSION = "session"
    LIST_VALUE = "list of values by key"
    SUPPRESS_BUFFER = "suppress buffer"
    JOIN_BUFFER = "stream-table join buffer"


@dataclass(frozen=True, slots=True)
class StoreBuilder:
    """A store of a topology. Times in ms.

    `key_serde` and `value_serde` None: the defaults of the application. `max_entries`: of an LRU store.
    `is_time_ordered`: window and session stores of EmitStrategy.onWindowClose. `grace_ms`: of a join buffer.
    """

    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    key_serde: Any = None
    value_serde: Any = None
    persistent: bool = True
    is_cached: bool = False
    is_logged: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int = 0
    segment_interval_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False
    history_retention_ms: int = 0
    max_entries: int | None = None
    is_time_ordered: bool = False
    has_index: bool = False
    grace_ms: int = 0

    def with_caching(self, is_cached: bool = True) -> StoreBuilder:
        return replace(self, is_cached=is_cached)

    def with_logging(self, config: Mapping[str, str]) -> StoreBuilder:
        """With a changelog; `config` are the configs of its topic."""
        return replace(self, is_logged=True, changelog_config=dict(config))

    def without_logging(self) -> StoreBuilder:
        return replace(self, is_logged=False, changelog_config={})

    def build(self) -> Any:
        """The store of one task, not yet open."""
        raise NotImplementedError(self.kind)
