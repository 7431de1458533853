"""Regular expressions for the source topics of a topology. Pure.

A subtopology reads the topics that its expressions match as a whole, as if the topology named them. Topics of
Kafka, internal topics of the application, and topics that the topology names elsewhere do not match; a topic
that matches in two subtopologies is read by the first. Any member may get any task: only topics that the
clients of all members may describe match. Kafka 4.3 refuses these expressions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ...protocol.application_topics import is_internal_topic
from ...protocol.errors import InvalidRegularExpressionError
from ...protocol.model import INTERNAL_TOPICS
from ...runtime.regex import MAX_WORK, Regex, compile_regex
from .topology import source_subtopologies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol.records.streams_group_records import (
        CopartitionGroup,
        StreamsGroupTopologyValue,
        Subtopology,
    )

_CACHED = 100  # Bound: compiled expressions


@lru_cache(maxsize=_CACHED)
def _compiled(expression: str) -> Regex:
    return compile_regex(expression)


def resolved(
    topology: StreamsGroupTopologyValue,
    group_id: str,
    names: Iterable[str],
    may_describe: Callable[[str], bool] = lambda _topic: True,
) -> StreamsGroupTopologyValue:
    """The topology with the matching topics among `names` in place of expressions; itself without any.
    `may_describe`: whether the members' clients may describe a topic.

    Errors: InvalidRegularExpressionError for an expression that cannot be parsed, or that takes too long.
    """
    if not has_expressions(topology):
        return topology
    named = source_subtopologies(topology)
    left = [name for name in sorted(names) if name not in named and _may_match(group_id, name)]
    subtopologies: list[Subtopology] = []
    for each in topology.subtopologies:
        matches = [tuple(filter(may_describe, some)) for some in _matches(each.source_topic_regex, left)]
        subtopologies.append(_with_matches(each, matches))
        taken = frozenset().union(*matches)
        left = [name for name in left if name not in taken]
    return topology._replace(subtopologies=tuple(subtopologies))


def has_expressions(topology: StreamsGroupTopologyValue) -> bool:
    """Whether a subtopology has expressions."""
    return any(each.source_topic_regex for each in topology.subtopologies)


def subtopology_of(topology: StreamsGroupTopologyValue, group_id: str, topic: str) -> str | None:
    """The subtopology that reads the topic; None without one."""
    named = source_subtopologies(topology).get(topic)
    if named is not None:
        return named
    if _may_match(group_id, topic):
        for each in topology.subtopologies:
            if any(_compiled(expression).matches_one(topic) for expression in each.source_topic_regex):
                return each.subtopology_id
    return None


def check_expressions(topology: StreamsGroupTopologyValue) -> None:
    """Errors: InvalidRegularExpressionError."""
    for each in topology.subtopologies:
        for expression in each.source_topic_regex:
            _compiled(expression)


def _may_match(group_id: str, name: str) -> bool:
    return name not in INTERNAL_TOPICS and not is_internal_topic(name, group_id)


def _matches(expressions: tuple[str, ...], names: list[str]) -> list[tuple[str, ...]]:
    """The topics of each expression."""
    found, work = [], 0
    for expression in expressions:
        regex = _compiled(expression)
        found.append(regex.resolve(names, 0, 0).topics)
        work += regex.work
        if work > MAX_WORK:
            raise InvalidRegularExpressionError("the expressions of the topology take too long to match")
    return found


def _with_matches(subtopology: Subtopology, matches: list[tuple[str, ...]]) -> Subtopology:
    topics = list(subtopology.source_topics)
    places: list[tuple[int, ...]] = []  # of the topics of each expression
    for some in matches:
        topics += [name for name in some if name not in topics]
        places.append(tuple(topics.index(name) for name in some))

    def with_topics(group: CopartitionGroup) -> CopartitionGroup:
        matched = {place for number in group.source_topic_regex for place in places[number]}
        return group._replace(
            source_topics=tuple(sorted({*group.source_topics, *matched})), source_topic_regex=()
        )

    return subtopology._replace(
        source_topics=tuple(topics),
        source_topic_regex=(),
        copartition_groups=tuple(map(with_topics, subtopology.copartition_groups)),
    )
