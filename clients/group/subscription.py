"""The subscription of a group member: topics, or a pattern. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.model import INTERNAL_TOPICS
from ..consumer.arguments import checked_topics
from .offsets_to_commit import no_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.metadata import ClusterView
    from ..config import ConsumerConfig


class Subscription(NamedTuple):
    """Topics by name, or all whose whole name matches a pattern; internal topics only with `internal`.

    `regex` is the pattern for the coordinator to match; None where its matches could differ.
    """

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    internal: bool = False
    regex: str | None = None

    def topics_in(self, view: ClusterView) -> tuple[str, ...]:
        """The topics by name, or those of the view that match."""
        if self.pattern is None:
            return self.topics
        return tuple(
            sorted(
                name
                for name, topic in view.topics.items()
                if self.pattern.fullmatch(name) and (self.internal or not topic.is_internal)
            )
        )


def checked_subscription(
    topics: Iterable[str] | str, pattern: str | re.Pattern[str] | None, *, internal: bool
) -> Subscription:
    """The arguments of `subscribe`. Errors: ConfigError for none, both, or a bad pattern.

    The client matches a compiled pattern, which has Python's syntax and flags. It also matches a pattern that
    fits an excluded internal topic: the coordinator would assign that topic, as Kafka's does.
    """
    names = checked_topics((topics,) if isinstance(topics, str) else topics)
    if bool(names) == (pattern is not None):
        raise ConfigError("subscribe to topics by name, or to a pattern")
    if pattern is None:
        return Subscription(names)
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ConfigError(f"{pattern!r} is no regular expression: {error}") from error
    is_common = internal or not any(map(compiled.fullmatch, INTERNAL_TOPICS))
    return Subscription((), compiled, internal, pattern if isinstance(pattern, str) and is_common else None)


def first_subscription(
    config: ConsumerConfig, topics: tuple[str, ...], pattern: str | re.Pattern[str] | None, listener: object
) -> Subscription | None:
    """The subscription of a new consumer; None without topics and pattern, or without a group.

    Errors: ConfigError for a pattern or a listener without a group, and as `checked_subscription`.
    """
    if not config.group:
        if pattern is not None or listener is not None:
            raise no_group()
        return None
    if not topics and pattern is None:
        return None
    return checked_subscription(topics, pattern, internal=not config.exclude_internal_topics)
