"""Validation of topic names before requests, and the message for unknown topics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import InvalidTopicError
from ..protocol.model import topic_name_fault
from ..runtime.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_topic_name(name: str) -> None:
    """Errors: InvalidTopicError for an invalid topic name."""
    fault = topic_name_fault(name)
    if fault is not None:
        raise InvalidTopicError(fault)


def no_topic(name: str, known: Iterable[str]) -> str:
    """The message for an unknown topic, with the nearest of the `known` names."""
    return topic_name_fault(name) or f"no topic {name!r}{did_you_mean(name, known)}"
