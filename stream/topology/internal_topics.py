"""Configs of repartition and changelog topics. Source: InternalTopicConfig and its subclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .specs import StoreBuilder

_DAY_MS = 24 * 60 * 60 * 1000
_MAX_LONG = 2**63 - 1


class TopicKind(Enum):
    """What an internal topic contains; each kind has its own default configs."""

    REPARTITION = "repartition"
    CHANGELOG = "changelog"
    WINDOWED_CHANGELOG = "windowed changelog"
    VERSIONED_CHANGELOG = "versioned changelog"


_DEFAULTS: Mapping[TopicKind, Mapping[str, str]] = {
    TopicKind.REPARTITION: {
        "cleanup.policy": "delete",
        "segment.bytes": "52428800",
        "retention.ms": "-1",  # a task deletes records of repartition topics once they are processed
    },
    TopicKind.CHANGELOG: {"cleanup.policy": "compact"},
    TopicKind.WINDOWED_CHANGELOG: {"cleanup.policy": "compact,delete"},
    TopicKind.VERSIONED_CHANGELOG: {"cleanup.policy": "compact"},
}


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the application creates. `partitions` is None where co-partitioning decides it."""

    name: str
    kind: TopicKind
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int = 0
    """Retention of the window store, or history retention of the versioned store."""

    def configs(
        self, defaults: Mapping[str, str] | None = None, additional_retention_ms: int = _DAY_MS
    ) -> dict[str, str]:
        """Configs to create the topic with. `defaults`: the application's `topic.*` configs;
        `additional_retention_ms`: windowstore.changelog.additional.retention.ms."""
        result = {
            "message.timestamp.type": "CreateTime",
            **_DEFAULTS[self.kind],
            **(defaults or {}),
            **self.config,
        }
        if self.kind is TopicKind.WINDOWED_CHANGELOG and "retention.ms" not in self.config:
            result["retention.ms"] = str(min(self.retention_ms + additional_retention_ms, _MAX_LONG))
        if self.kind is TopicKind.VERSIONED_CHANGELOG and "min.compaction.lag.ms" not in self.config:
            result["min.compaction.lag.ms"] = str(min(self.retention_ms + _DAY_MS, _MAX_LONG))
        return result


def changelog(name: str, builder: StoreBuilder) -> InternalTopic:
    """The changelog topic of a store."""
    config = dict(builder.changelog_config)
    if builder.history_retention_ms:
        kind = TopicKind.VERSIONED_CHANGELOG
        return InternalTopic(name, kind, config=config, retention_ms=builder.history_retention_ms)
    if builder.is_windowed:
        return InternalTopic(
            name, TopicKind.WINDOWED_CHANGELOG, config=config, retention_ms=builder.retention_ms
        )
    return InternalTopic(name, TopicKind.CHANGELOG, config=config)
