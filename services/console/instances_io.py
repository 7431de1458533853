"""What the instances of streams applications report about themselves."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ...clients.cluster.network_io import ZmqNetwork
from ...clients.config import ConnectionConfig
from ...protocol.transport.security import NO_SECURITY
from ...runtime.clock_io import monotonic_ms
from ...stream.query.reports_io import reports_of
from ...stream.query.secrets_io import query_keys

if TYPE_CHECKING:
    from ...clients.admin.streams_groups import StreamsGroupDescription
    from ...stream.query.hosts import HostInfo
    from ...stream.query.security_config import QuerySecurityConfig
    from ...stream.watch.application import Report

MOST_INSTANCES = 100  # Bound: instances that one page asks
PATIENCE_MS = 2_000


class Instances:
    """Asks instances at their application.server, with the secret for queries if there is one."""

    def __init__(self, security: QuerySecurityConfig) -> None:
        self._security = security

    async def reports(self, group: StreamsGroupDescription) -> dict[HostInfo, Report]:
        """The report of each instance, or the reason why there is none. Errors: ConfigError for the
        secret."""
        if sum(member.endpoint is not None for member in group.members) > MOST_INSTANCES:
            return {}
        keys = query_keys(self._security, group.group_id)
        network = ZmqNetwork(
            ConnectionConfig.of({"client.id": "headrace-console-queries"}),
            monotonic_ms,
            Random(),  # noqa: S311 - jitter, not secrets
            NO_SECURITY if keys is None else keys.of_asker(),
        )
        try:
            return await reports_of(
                network, group, deadline_ms=monotonic_ms() + PATIENCE_MS, has_secret=keys is not None
            )
        finally:
            await network.close()
