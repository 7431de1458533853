"""Transactions: the list, one transactional id, and hanging ones to abort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import HeadraceError
from ....protocol.model import TopicPartition
from ..page import Page

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..visit import Visit

MINUTES = 15
PLACES_PER_REQUEST = 1_000


async def transactions(visit: Visit, error: str = "", status: int = 200) -> Response:
    """All transactional ids, or those in one state."""
    state, wanted = visit.text("state"), visit.text("q").lower()
    found = await visit.admin.list_transactions()
    states = sorted({each.state.value for each in found})
    rows = [
        each
        for each in sorted(found, key=lambda each: each.transactional_id)
        if wanted in each.transactional_id.lower() and state in ("", each.state.value)
    ]
    return visit.render(
        "transactions.html",
        status,
        list=visit.paged(rows),
        states=states,
        state=state,
        q=visit.text("q"),
        error=error,
    )


async def transaction(visit: Visit, error: str = "", status: int = 200) -> Response:
    """One transactional id."""
    name = visit.text("id")
    found = (await visit.admin.describe_transactions(name))[name]
    return visit.render("transaction.html", status, found=found, error=error)


async def fence(visit: Visit) -> Response:
    """Abort the open transaction of a transactional id, and fence its producer; of a prepared one, abort
    it."""
    name, is_prepared = visit.text("id"), visit.field("kind") == "prepared"
    action = "abort prepared transaction" if is_prepared else "abort transaction and fence producer"
    if visit.field("confirm") != name:
        return await transaction(visit, "Type the transactional id to confirm. Nothing was changed.", 400)
    try:
        if is_prepared:
            (await visit.admin.abort_prepared(name)).raise_for_errors()
        else:
            (await visit.admin.fence_producers(name)).raise_for_errors()
    except (HeadraceError, ExceptionGroup) as failure:
        inner = failure.exceptions[0] if isinstance(failure, ExceptionGroup) else failure
        return await transaction(visit, visit.failed(action, name, inner), 400)
    visit.did(action, name)
    return visit.see("/transaction", f"the transaction of {name} is aborted", id=name)


async def hanging(visit: Visit, error: str = "", status: int = 200) -> Response:
    """Transactions that no coordinator will end, of partitions without records for some minutes."""
    minutes = visit.number("minutes", MINUTES, most=10_000_000)
    snapshot = await visit.snapshot()
    places = [
        TopicPartition(part.topic, part.partition) for part in snapshot.partitions if not part.is_unavailable
    ]
    found = []
    for start in range(0, len(places), PLACES_PER_REQUEST):
        piece = places[start : start + PLACES_PER_REQUEST]
        found += await visit.admin.find_hanging_transactions(piece, longer_than=60.0 * minutes)
    return visit.render(
        "hanging.html", status, rows=found, partitions=len(places), minutes=minutes, error=error
    )


async def abort(visit: Visit) -> Response:
    """Abort a hanging transaction in its partition."""
    tp = TopicPartition(visit.field("topic"), visit.field_number("partition", most=2**31 - 1))
    producer_id, epoch = visit.field_number("producer_id"), visit.field_number("producer_epoch", most=32767)
    target = f"producer {producer_id} in {tp}"
    try:
        await visit.admin.abort_transaction(
            tp,
            producer_id,
            epoch,
            coordinator_epoch=max(0, visit.field_number("coordinator_epoch", most=2**31 - 1)),
        )
    except HeadraceError as failure:
        return await hanging(visit, visit.failed("abort hanging transaction", target, failure), 400)
    visit.did("abort hanging transaction", target)
    return visit.see("/hanging", f"the transaction of {target} is aborted")


PAGES = (
    Page("GET", "/transactions", transactions),
    Page("GET", "/transaction", transaction),
    Page("POST", "/transaction", fence),
    Page("GET", "/hanging", hanging),
    Page("POST", "/hanging", abort),
)
