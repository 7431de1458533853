"""The live tail of a topic: server-sent events with rows of a table."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from ....protocol.errors import HeadraceError
from ...web.guard_io import SLOT
from ...web.problems import Problem, text_of_error
from ..browsing_io import tail
from ..decoding import FORMATS, visible
from ..page import Page
from .messages import masks_of, search_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response

    from ..search import Search
    from ..visit import Visit

LONGEST_S = 3600.0  # a tail ends after this time; the page starts the next one


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
    if visit.shared.tails >= visit.shared.settings.most_tails:
        raise Problem(503, f"{visit.shared.tails} tails are open", headers={"retry-after": "5"})
    visit.request.scope[SLOT].release() if SLOT in visit.request.scope else None
    return StreamingResponse(
        _events(visit, search),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _events(visit: Visit, search: Search) -> AsyncIterator[bytes]:
    shared = visit.shared
    row_template = shared.templates.get_template("tail_rows.html")
    shared.tails += 1
    try:
        yield b"retry: 3000\n\n"
        deadline = time.monotonic() + LONGEST_S
        async with shared.pool.use(visit.credentials) as clients:
            async for step in tail(clients, search):
                if step.rows:
                    yield event("rows", row_template.render(rows=step.rows))
                if step.left_out:
                    yield event("left-out", str(step.left_out))
                if not step.rows:
                    yield event("alive", "")
                if time.monotonic() > deadline:
                    return
    except (HeadraceError, Problem) as error:
        yield event("trouble", visible(text_of_error(error)))
    finally:
        shared.tails -= 1


def event(name: str, text: str) -> bytes:
    """A server-sent event; the text is JSON, so that no line of it is a field of the stream."""
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode()


PAGES = (
    Page("GET", "/topics/{name}/tail", tail_page),
    Page("GET", "/topics/{name}/events", events),
)
