"""Configs of internal topics: those of Kafka Streams, the user's over them."""

from __future__ import annotations

import pytest
from headrace.stream.topology.internal_topics import InternalTopic, TopicKind, changelog

from tests.fakes.stream_stores import AnyStore

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (AnyStore("s"), {"cleanup.policy": "compact"}),
        (
            AnyStore("s", retention_ms=10),
            {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS + 10)},
        ),
        (
            AnyStore("s", history_retention_ms=5),
            {"cleanup.policy": "compact", "min.compaction.lag.ms": str(DAY_MS + 5)},
        ),
        (
            AnyStore("s", retention_ms=10, changelog_config={"retention.ms": "7", "segment.ms": "1"}),
            {"cleanup.policy": "compact,delete", "retention.ms": "7", "segment.ms": "1"},
        ),
        (
            AnyStore("s", retention_ms=2**63 - 1),
            {"cleanup.policy": "compact,delete", "retention.ms": str(2**63 - 1)},
        ),
    ],
)
def test_changelog_configs_follow_the_kind_of_store(store: AnyStore, expected: dict[str, str]) -> None:
    """Windowed changelogs lose old records a day after the store does; versioned ones are compacted later."""
    assert changelog("t", store).configs() == {"message.timestamp.type": "CreateTime", **expected}


def test_configs_of_the_store_precede_defaults_of_the_application() -> None:
    """`topic.*` configs of the application stand between Kafka's defaults and the store's."""
    topic = InternalTopic("t", TopicKind.REPARTITION, partitions=3)
    assert topic.configs({"segment.bytes": "1000", "min.insync.replicas": "2"}) == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "delete",
        "segment.bytes": "1000",
        "retention.ms": "-1",
        "min.insync.replicas": "2",
    }
