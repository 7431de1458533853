"""What the instances of an application report about themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...clients.cluster.network import Address
from ...protocol.errors import HeadraceError
from ...protocol.messages.registry import STREAMS_QUERY
from ...protocol.messages.streams_queries import StreamsQueryRequest
from ...runtime.clock_io import monotonic_ms
from .errors import explained
from .hosts import HostInfo
from .wire import STATUS

if TYPE_CHECKING:
    from ...clients.admin.streams_groups import StreamsGroupDescription
    from ...clients.cluster.network_io import ZmqNetwork
    from ...protocol.messages.streams_queries import StreamsQueryResponse
    from ..watch.application import Report

ATTEMPT_MS = 2_000  # for the response of an instance


async def reports_of(
    network: ZmqNetwork,
    group: StreamsGroupDescription,
    *,
    sample_ms: int = 0,
    deadline_ms: int,
    has_secret: bool,
) -> dict[HostInfo, Report]:
    """The report of each instance with an application.server, or the reason why there is none. `sample_ms`:
    for how long each one samples its busy operators."""
    hosts = sorted({HostInfo(*member.endpoint) for member in group.members if member.endpoint is not None})
    request = StreamsQueryRequest(group.group_id, query=STATUS, arguments=(sample_ms,))

    async def ask(host: HostInfo) -> Report:
        left_ms = min(max(deadline_ms - monotonic_ms(), 1), ATTEMPT_MS + sample_ms)
        try:
            reply = await network.request(Address(*host), STREAMS_QUERY, request, timeout_ms=left_ms)
        except HeadraceError as error:
            return f"it does not answer: {explained(error, has_secret=has_secret)}"
        body: StreamsQueryResponse = reply.body
        return body.message if body.status is None else body.status

    return dict(zip(hosts, await asyncio.gather(*map(ask, hosts)), strict=True))
