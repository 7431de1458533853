"""The live tail of a topic: server-sent events with rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from ...web.guard_io import SLOT
from ..decoding import FORMATS
from ..page import Page
from .messages import masks_of, search_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from ..visit import Visit


async def tail_page(visit: Visit) -> Response:
    """The page that shows a live tail."""
    name = visit.path("name")
    await visit.admin.describe_topics(name)
    search_of(visit)
    query = {key: value for key, value in visit.request.query_params.items() if key != "notice"}
    return visit.render(
        "tail.html",
        name=name,
        tab="tail",
        q=visit.text,
        query=query,
        formats=FORMATS,
        masks=masks_of(visit, name).rules,
    )


async def events(visit: Visit) -> Response:
    """The stream of a tail."""
    search = search_of(visit)
    (await visit.admin.describe_topics(search.topic)).raise_for_errors()
    visit.shared.tails.check()
    if SLOT in visit.request.scope:
        visit.request.scope[SLOT].release()  # tails have a bound of their own
    return StreamingResponse(
        visit.shared.tails.events(visit.credentials, search),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


PAGES = (
    Page("GET", "/topics/{name}/tail", tail_page),
    Page("GET", "/topics/{name}/events", events),
)
