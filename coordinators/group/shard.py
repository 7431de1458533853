"""The group coordinator's state machine: one partition of __consumer_offsets.

It knows which part answers what, and no rules of its own: classic groups (classic_groups.py), groups of the
new protocol (consumer_groups.py), committed offsets (offsets.py, expiry.py, transactional_offsets.py) and
what admins ask (admin.py). All share `groups`, which holds every group by its id. Pure.
Source: Kafka GroupCoordinatorShard.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.envelope import Api
    from ..runtime.ports import Now, Outcome, Surroundings
    from .group import Group

    Handler = Callable[[Any, Any, Now], Outcome]


class GroupShard:
    """All groups of one partition. Fulfils Shard."""

    def __init__(self, partition: int, around: Surroundings) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self._around = around
        self._handlers: dict[int, Handler] = {}

    def handle(self, api: Api, body: Any, token: Any, now: Now) -> Outcome:
        """One request. Errors: KafkaError; nothing was changed then."""
        handler = self._handlers.get(api.key)
        if handler is None:
            raise UnsupportedVersionError(f"group coordinators do not answer {api.name}")
        return handler(body, token, now)
