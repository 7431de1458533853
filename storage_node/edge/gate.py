"""Authorization at the node that receives a request, for both protocols: the request is rejected, reduced to
its authorized resources, or passed on unchanged. Pure."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import KafkaError
from ...protocol.messages import registry
from ...runtime.authorization.outcomes import Answered
from .gateway import OwnRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.header import Buffer
    from ...protocol.transport.replies import Incoming, Replies
    from ...runtime.authorization.gate import Gate


class ReducedRequest(OwnRequest):
    """The authorized part of a request of the node's own listener."""


def admitted(gate: Gate, request: Incoming, replies: Replies) -> Incoming | None:
    """The request that may run; None if it was answered. Errors: KafkaError, its response."""
    try:
        outcome = gate.check(request)
    except KafkaError:
        if not _is_silent(request):
            raise
        replies.no_reply(request)
        return None
    if outcome is None:
        return request
    if isinstance(outcome, Answered):
        if _is_silent(request):
            replies.no_reply(request)
        else:
            replies.reply(request, outcome.response)
        return None
    answered = partial(_answered, request, replies, outcome.merge)
    if isinstance(request, OwnRequest):
        part = {"body": outcome.body, "frames": outcome.frames, "answered": answered}
        return dataclasses.replace(request, **part, begun_s=-1.0)  # the request itself is measured
    return ReducedRequest(request.peer, request.api, outcome.body, outcome.frames, answered)


def _is_silent(request: Incoming) -> bool:
    """Whether the client expects no response."""
    return request.api is registry.PRODUCE and not request.body.acks


def _answered(
    request: Incoming,
    replies: Replies,
    merge: Callable[[Any], Any],
    outcome: Any,
    frames: Sequence[Buffer],
) -> None:
    """The response to the authorized part of `request`."""
    if outcome is None:
        replies.no_reply(request)
    elif isinstance(outcome, KafkaError):
        replies.reply_error(request, outcome)
    else:
        try:
            response = merge(outcome)
        except KafkaError as error:  # the rules of the authorizer are too old
            replies.reply_error(request, error)
        else:
            replies.reply(request, response, frames)
