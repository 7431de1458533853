"""Version 3, an addition of headrace: tails of topics as server-sent events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...clients.admin.admin_types import LATEST
from ...protocol.errors import UnknownTopicOrPartitionError
from ..web.calls_io import Reply
from ..web.guard_io import LAST_PART, SLOT
from ..web.problems import Problem
from ..web.routes import Route
from .tails import Tail, error_event
from .v3_clusters import links_of
from .v3_read import START_PARAMS, ReadRecord, format_of, start_offsets
from .v3_topics import TOPIC, no_topic

if TYPE_CHECKING:
    from ..web.calls_io import Call
    from .tails import Tails
    from .topic_tail import TopicTail

EVENT_STREAM = "text/event-stream"
_TOO_SLOW = error_event(Problem(408, "the client reads too slowly: write.timeout.ms", 40801))


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
        topic, wanted = call.params["topic_name"], format_of(call)
        try:
            shared = await self._tails.join(call.clients, topic, wanted)
        except UnknownTopicOrPartitionError:
            raise no_topic(topic) from None
        try:
            positions = await self._positions(call, shared)
        except BaseException:
            await self._tails.leave(shared)
            raise
        headers = {"x-accel-buffering": "no"}
        if call.scope["method"] == "HEAD":
            await self._tails.leave(shared)
            return Reply(b"", 200, EVENT_STREAM, headers)
        call.scope[SLOT].release()  # open tails have a bound of their own
        gone = asyncio.ensure_future(call.until_gone())
        call.scope[LAST_PART] = _TOO_SLOW
        tail = Tail(self._tails, shared, positions, gone, call.write_chunk)
        return Reply(tail, 200, EVENT_STREAM, headers)

    @staticmethod
    async def _positions(call: Call, shared: TopicTail) -> dict[int, int]:
        """Where the tail starts. The shared consumer knows the end, without a request to the cluster."""
        resumed = call.header("last-event-id") or call.text("last_event_id")
        one, ends = call.number("partition"), shared.positions
        is_limited = one is not None or resumed or call.text("timestamp") is not None
        if not is_limited and call.text("offset") in (None, "latest"):
            return dict(ends)
        starts = await start_offsets(call, shared.topic, sorted(ends), LATEST, resumed)
        # Resumed positions may be those of an earlier topic of this name.
        now = await call.clients.admin.list_offsets(dict.fromkeys(starts, LATEST))
        return {tp.partition: min(offset, now[tp].offset) for tp, offset in starts.items()}
