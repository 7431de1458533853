"""The topology of an application as its streams group stores it (KIP-1071). Pure.

Sources with patterns are sent as regular expressions, which the coordinator matches; a source topic that is a
changelog is among both. Source: Kafka StreamsRebalanceData.java, StreamsGroupHeartbeatRequestManager.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidRegularExpressionError
from ...protocol.records.streams_group_records import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from ...runtime.regex import compile_regex
from ..topology.errors import TopologyError
from ..topology.specs import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..config import StreamsConfig
    from ..topology.built import BuiltTopology
    from ..topology.internal_topics import InternalTopic

EPOCH = 0
COMPUTED = 0  # the coordinator computes the number of partitions
_FLAGS = re.IGNORECASE | re.UNICODE | re.ASCII | re.MULTILINE | re.DOTALL  # only the first one matters


def group_topology(
    built: BuiltTopology, config: StreamsConfig, topic_defaults: Mapping[str, str]
) -> StreamsGroupTopologyValue:
    """The topology that the members send. `topic_defaults`: configs of all internal topics.

    Errors: TopologyError for a pattern that the coordinator cannot match.
    """
    return StreamsGroupTopologyValue(
        EPOCH,
        tuple(_subtopology(built, number, config, topic_defaults) for number in built.sub_topology_ids),
    )


def _subtopology(
    built: BuiltTopology, number: int, config: StreamsConfig, topic_defaults: Mapping[str, str]
) -> Subtopology:
    info, nodes = built.topics_of(number), built.sub_topology(number).nodes
    sources = [node for node in nodes if isinstance(node, SourceSpec)]
    named = sorted({topic for node in sources for topic in node.topics} - info.repartition_topics.keys())
    expressions = {node.name: expression_of(node) for node in sources if node.pattern is not None}
    regexes = sorted(set(expressions.values()))
    internal = {
        topic for each in built.sub_topology_ids for topic in built.topics_of(each).repartition_topics
    }
    sinks = {node.topic for node in nodes if isinstance(node, SinkSpec) and node.topic in internal}

    def sent(topics: Mapping[str, InternalTopic]) -> tuple[TopicInfo, ...]:
        return tuple(_topic(topic, config, topic_defaults) for _, topic in sorted(topics.items()))

    repartition = sorted(info.repartition_topics)
    return Subtopology(
        str(number),
        tuple(named),
        tuple(regexes),
        sent(info.changelog_topics),
        tuple(sorted(map(str, sinks))),
        sent(info.repartition_topics),
        _groups(built.copartition_subscriptions(), named, repartition, expressions, regexes),
    )


def expression_of(source: SourceSpec) -> str:
    """The pattern of a source as a regular expression. Errors: TopologyError."""
    pattern = source.pattern
    assert pattern is not None
    expression = ("(?i)" if pattern.flags & re.IGNORECASE else "") + pattern.pattern
    fault = "it has flags besides re.IGNORECASE" if pattern.flags & ~_FLAGS else ""
    try:
        compile_regex(expression)
    except InvalidRegularExpressionError as error:
        fault = error.detail
    if fault:
        raise TopologyError(
            f"the group coordinator cannot match the pattern {pattern.pattern!r} of source {source.name}:"
            f" {fault}; it takes the syntax of RE2, without look-around and back references",
            source.origin,
        )
    return expression


def _topic(topic: InternalTopic, config: StreamsConfig, defaults: Mapping[str, str]) -> TopicInfo:
    configs = topic.configs(defaults, config.window_store_additional_retention_ms)
    return TopicInfo(
        topic.name,
        topic.partitions or COMPUTED,
        config.replication_factor,
        tuple(KeyValue(name, value) for name, value in sorted(configs.items())),
    )


def _groups(
    groups: Sequence[frozenset[str]],
    named: Sequence[str],
    repartition: Sequence[str],
    expressions: Mapping[str, str],
    regexes: Sequence[str],
) -> tuple[CopartitionGroup, ...]:
    """Those of the subtopology, as indices. A group belongs to one subtopology, because a join connects its
    sources."""
    found = (
        CopartitionGroup(
            tuple(index for index, topic in enumerate(named) if topic in group),
            tuple(sorted({regexes.index(text) for name, text in expressions.items() if name in group})),
            tuple(index for index, topic in enumerate(repartition) if topic in group),
        )
        for group in groups
    )
    return tuple(group for group in found if any(group))
