"""Topic names: checked before anything is sent, and what to say of those that do not exist. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import InvalidTopicError
from ..protocol.model import topic_name_fault
from ..runtime.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_topic_name(name: str) -> None:
    """Errors: InvalidTopicError for a name that no topic can have."""
    fault = topic_name_fault(name)
    if fault is not None:
        raise InvalidTopicError(fault)


def no_topic(name: str, known: Iterable[str]) -> str:
    """The message for a topic that does not exist, with the nearest of the `known` names."""
    return topic_name_fault(name) or f"no topic {name!r}{did_you_mean(name, known)}"
