"""Makes the membership of a consumer from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.errors import ConfigError
from .assignors import RangeAssignor, RoundRobinAssignor
from .classic import ClassicMember
from .member import MemberConfig
from .membership_io import Membership
from .modern import ModernMember
from .sticky import CooperativeStickyAssignor, StickyAssignor
from .streams import StreamsApplication, StreamsMember

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.backoff import Backoff
    from ..cluster.hub_io import Hub
    from ..config import ConsumerConfig
    from .assignors import Assignor
    from .member import MemberCore

    SomeAssignors = Iterable[str | Assignor] | StreamsApplication
    """Of a consumer of a classic group; StreamsApplication: a member of a streams group."""
    from .membership_io import PartitionReader


def join_group(
    engine: PartitionReader,
    hub: Hub,
    config: ConsumerConfig,
    backoff: Backoff,
    assignors: SomeAssignors | None,
) -> Membership | None:
    """None without a group.id. Errors: ConfigError for unknown assignors."""
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
    if isinstance(assignors, StreamsApplication):
        core = StreamsMember(member, _new_id(hub), backoff, assignors)
    elif config.group_protocol == "consumer":
        if assignors is not None:
            raise ConfigError("assignors= are of group_protocol='classic': here the coordinator assigns")
        core = ModernMember(member, _new_id(hub), backoff)
    else:
        chosen = checked_assignors(config.assignors if assignors is None else assignors)
        core = ClassicMember(member, chosen, backoff)
    return Membership(engine, hub, config, core, backoff)


def kept_assignors(given: SomeAssignors | None) -> SomeAssignors | None:
    """With an iterable of its own."""
    return given if given is None or isinstance(given, StreamsApplication) else tuple(given)


def _new_id(hub: Hub) -> str:
    return str(UUID(int=hub.random.getrandbits(128), version=4))


def checked_assignors(wanted: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """Assignors by name, and the user's own. Errors: ConfigError for other values, or for an empty list."""
    kinds = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
    built_in: dict[str, Assignor] = {kind.name: kind() for kind in kinds}
    found: list[Assignor] = []
    for each in wanted:
        if isinstance(each, str):
            if each not in built_in:
                known = ", ".join(built_in)
                raise ConfigError(f"partition.assignment.strategy: no assignor {each!r}; there are {known}")
            found.append(built_in[each])
        elif isinstance(getattr(each, "name", None), str) and callable(getattr(each, "assign", None)):
            found.append(each)
        else:
            raise ConfigError(f"an assignor is given by name, or as an Assignor, not {each!r}")
    if not found or len({each.name for each in found}) < len(found):
        raise ConfigError("partition.assignment.strategy needs one assignor or more, each with its own name")
    return tuple(found)
