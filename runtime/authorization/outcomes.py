"""The outcomes of a check: a rejected request, or its authorized part. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer
    from ...protocol.security.required_operations import Need
    from .access import Access


class Answered(NamedTuple):
    """No part is authorized: the response."""

    response: Any


class Reduced(NamedTuple):
    """The authorized part; `merge` creates the response of the whole request from the response of this
    part."""

    body: Any
    frames: Sequence[Buffer]
    merge: Callable[[Any], Any]


Outcome = Answered | Reduced | None  # None: the request is authorized unchanged
# Errors: KafkaError if the whole request is rejected.
Check = Callable[["Access", Any, "Sequence[Buffer]"], Outcome]
MakeCheck = Callable[["tuple[Need, ...]"], Check]


def shown(check: Check, show: Callable[[Access, Any], Any]) -> Check:
    """`check` on the request, then `show` on the response of its authorized part."""

    def checked(access: Access, body: Any, frames: Sequence[Buffer]) -> Outcome:
        outcome = check(access, body, frames)
        if isinstance(outcome, Answered):
            return outcome
        if outcome is None:
            return Reduced(body, frames, lambda response: show(access, response))
        merge = outcome.merge
        return Reduced(outcome.body, outcome.frames, lambda response: merge(show(access, response)))

    return checked


def allows_all(_access: Access, _body: Any, _frames: Sequence[Buffer]) -> Outcome:
    """The check of a request whose resources are not rejected individually."""
    return None
