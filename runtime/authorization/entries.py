"""Requests with several resources, of which the unauthorized ones are rejected individually. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ...protocol.security.acls import ResourceType
from ...protocol.security.required_operations import Scope
from .access import refusal
from .outcomes import Answered, Outcome, Reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.errors import KafkaError
    from ...protocol.messages.envelope import Api
    from ...protocol.records.header import Buffer
    from ...protocol.security.required_operations import Need
    from .access import Access
    from .outcomes import Check, MakeCheck

Refused = tuple[Any, ...]  # the results of one entry


class Entries(NamedTuple):
    """The entries of a request and their results, which the response has in the same order.

    `refused` (of access, request and entry) creates the results of an unauthorized entry, as many as it would
    have; None if it is authorized.
    """

    api: Api
    entries: str
    results: str
    refused: Callable[[Access, Any, Any], Refused | None]
    has_frames: bool = False  # frame i belongs to entry i


def each_need(needs: tuple[Need, ...], kind: ResourceType) -> Need | None:
    """The requirement for each resource of a type."""
    return next(
        (need for need in needs if need.scope is Scope.EACH and need.right.resource_type is kind), None
    )


def shown_need(needs: tuple[Need, ...], kind: ResourceType) -> Need | None:
    """The requirement for each resource of a type in a response."""
    return next(
        (need for need in needs if need.scope is Scope.SHOWN and need.right.resource_type is kind), None
    )


def check_entries(entries: Entries) -> Check:
    """The check of such a request."""
    refused_of, field, has_frames = entries.refused, entries.entries, entries.has_frames

    def check(access: Access, body: Any, frames: Sequence[Buffer]) -> Outcome:
        asked = getattr(body, field)
        refused = [refused_of(access, body, entry) for entry in asked]
        left = [position for position, results in enumerate(refused) if results is None]
        if len(left) == len(refused):
            return None

        def merge(response: Any) -> Any:
            return _merged(entries, asked, refused, response)

        if not left:
            return Answered(merge(_empty(entries)))
        rest = msgspec.structs.replace(body, **{field: tuple(asked[position] for position in left)})
        return Reduced(rest, [frames[position] for position in left] if has_frames else frames, merge)

    return check


def _merged(entries: Entries, asked: Sequence[Any], refused: Sequence[Refused | None], response: Any) -> Any:
    """The results of rejected entries, in order among those of the others; an error of the whole request is
    unchanged."""
    if getattr(response, "error_code", 0):
        return response
    left = iter(getattr(response, entries.results))
    results: list[Any] = []
    for entry, own in zip(asked, refused, strict=True):
        results += [next(left) for _ in range(_width(entries, entry))] if own is None else own
    return msgspec.structs.replace(response, **{entries.results: tuple(results)})


def _width(entries: Entries, entry: Any) -> int:
    """The number of results of an entry that runs."""
    return len(entry.partitions) if entries.entries == "topics" and hasattr(entry, "partitions") else 1


def _empty(entries: Entries) -> Any:
    """The response to a request without entries."""
    response = entries.api.response
    return response(0, ()) if response.__struct_fields__[0] == "error_code" else response(())


# --- the resources of entries -----------------------------------------------------------------------------


def by_topic_id(
    api: Api, entries: str, results: str, result: Callable[[int], Any], *, has_frames: bool = False
) -> MakeCheck:
    """Entries with a topic id; `result` makes a result of an error code."""

    def make(needs: tuple[Need, ...]) -> Check:
        need = each_need(needs, ResourceType.TOPIC)
        code = refusal(ResourceType.TOPIC).code

        def refused(access: Access, _body: Any, entry: Any) -> Refused | None:
            return None if access.may_by_id(need, entry.topic_id) else (result(code),)

        return check_entries(Entries(api, entries, results, refused, has_frames))

    return make


def by_name(
    api: Api,
    entries: str,
    results: str,
    kind: ResourceType,
    name: Callable[[Any], str],
    failed: Callable[[Any, KafkaError], Refused],
) -> MakeCheck:
    """Entries that name resources of one type; `failed` makes the results of an entry."""

    def make(needs: tuple[Need, ...]) -> Check:
        need = each_need(needs, kind)

        def refused(access: Access, _body: Any, entry: Any) -> Refused | None:
            return None if access.may(need, name(entry)) else failed(entry, refusal(kind))

        return check_entries(Entries(api, entries, results, refused))

    return make
