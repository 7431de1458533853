"""Makes the group side of a consumer out of its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.errors import ConfigError
from .assignors import checked_assignors
from .classic import ClassicMember
from .member import MemberConfig
from .membership_io import Membership
from .modern import ModernMember

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from ..config import ConsumerConfig
    from ..consumer.consumer_io import ConsumerEngine
    from .assignors import Assignor
    from .member import MemberCore


def join_group(
    engine: ConsumerEngine,
    hub: Hub,
    config: ConsumerConfig,
    backoff: Backoff,
    assignors: Iterable[str | Assignor] | None,
) -> Membership | None:
    """None without a group. Errors: ConfigError for assignors that do not exist."""
    if not config.group:
        return None
    member = MemberConfig(
        config.group,
        config.group_instance_id or None,
        config.session_timeout_ms,
        config.heartbeat_interval_ms,
        config.max_poll_interval_ms,
        hub.client_id or "consumer",
        rack_id=config.client_rack or None,
        server_assignor=config.group_remote_assignor or None,
    )
    core: MemberCore
    if config.group_protocol == "consumer":
        if assignors is not None:
            raise ConfigError("assignors= are of group_protocol='classic': here the coordinator assigns")
        core = ModernMember(member, str(UUID(int=hub.random.getrandbits(128), version=4)), backoff)
    else:
        chosen = checked_assignors(config.assignors if assignors is None else assignors)
        core = ClassicMember(member, chosen, backoff)
    return Membership(engine, hub, config, core, backoff)
