"""Version 3, an addition of headrace: tails of topics as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import LATEST
from ..web.calls_io import Reply
from ..web.guard_io import SLOT
from ..web.routes import Route
from .v3_clusters import links_of
from .v3_read import START_PARAMS, ReadRecord, format_of, start_offsets
from .v3_topics import TOPIC, described

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ...protocol.model import TopicPartition
    from ..web.calls_io import Call
    from .tails import Tails

EVENT_STREAM = "text/event-stream"


class TailRoutes:
    """How requests open one."""

    def __init__(self, tails: Tails) -> None:
        self._tails = tails
        self.ROUTES = (
            Route(
                "GET", f"{TOPIC}/records:tail", self._tail, "Tail a topic", "v3 Records", None, ReadRecord,
                params=START_PARAMS, returns=(EVENT_STREAM,),
                doc="Not a part of Confluent's API. Server-sent events: the data of each is a record. The id"
                " of an event has the positions after it; a client that sends it as Last-Event-ID, as"
                " browsers do, continues there. Starts at the end by default.",
            ),
        )  # fmt: skip

    async def _tail(self, call: Call) -> Reply:
        await links_of(call)
        wanted = format_of(call)
        self._tails.admit()
        topic = await described(call)
        partitions = [each.partition for each in topic.partitions]
        resumed = call.header("last-event-id") or call.text("last_event_id")
        starts = await start_offsets(call, topic.name, partitions, LATEST, resumed)
        # Resumed positions may be those of an earlier topic of this name.
        ends = await call.clients.admin.list_offsets(dict.fromkeys(starts, LATEST))
        starts = {tp: min(offset, ends[tp].offset) for tp, offset in starts.items()}
        call.scope[SLOT].release()  # open tails have a bound of their own
        events = self._events(call, topic.name, wanted, starts)
        return Reply(events, 200, EVENT_STREAM, {"x-accel-buffering": "no"})

    async def _events(
        self, call: Call, topic: str, wanted: str, starts: Mapping[TopicPartition, int]
    ) -> AsyncIterator[bytes]:
        gone = asyncio.ensure_future(call.until_gone())
        try:
            async with contextlib.aclosing(
                self._tails.events(call.clients, topic, wanted, starts, gone)
            ) as events:
                async for part in events:
                    yield part
        finally:
            gone.cancel()
