"""The names of the topics that an application creates. Source: Kafka StreamsResetter.java."""

from __future__ import annotations

import re

_INTERNAL = re.compile(
    r".*-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)",
    re.DOTALL,
)


def is_internal_topic(topic: str, application_id: str) -> bool:
    """Whether the name is that of an internal topic of the application."""
    prefix = f"{application_id}-"
    return topic.startswith(prefix) and _INTERNAL.fullmatch("-" + topic.removeprefix(prefix)) is not None
