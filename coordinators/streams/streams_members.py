"""Sessions, delayed assignments and removal of members of streams groups, shared by heartbeats and timers.
Pure.

Everything kept here is soft state: sessions, tasks and offsets that members reported, requested shutdowns,
epochs of endpoint information, the members' clients, and the topics of topologies in the current image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.coordinator_errors import CoordinatorNotAvailableError
from ...protocol.errors import GroupIdNotFoundError, KafkaError
from ...storage_node.configs.group_config import streams_settings_of_group
from ..group.member_timers import MemberTimers
from ..group.topic_index import TopicIndex
from ..group.topic_rights import common_filter
from ..runtime.ports import Outcome
from .configured_topology import configure
from .connections import MemberConnections
from .endpoints import EndpointEpochs
from .internal_topics import InternalTopics
from .source_patterns import has_expressions, resolved
from .streams_draft import StreamsDraft
from .streams_group import StreamsGroup
from .streams_member import MemberState
from .task_offsets import TaskOffsets
from .topology import required_topics
from .warmups import AssignmentConfigs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue
    from ...storage_node.configs.group_config import StreamsGroupSettings
    from ...storage_node.embedded.contract import Now
    from ..group.group import Group
    from ..group.topic_rights import Client
    from ..runtime.ports import ShardContext
    from .configured_topology import ConfiguredTopology
    from .streams_member import Member
    from .tasks import Tasks


class CurrentTopology(NamedTuple):
    """A topology with the topics of the image at `offset`, and the hash of the topics that it requires.
    `resolved`: with topics in place of expressions, those that all `readers` may describe."""

    topology: StreamsGroupTopologyValue
    readers: frozenset[Client]
    resolved: StreamsGroupTopologyValue
    offset: int
    metadata_hash: int
    configured: ConfiguredTopology


class StreamsMembers:
    """Member state and timers that all parts of streams groups share."""

    def __init__(self, groups: dict[str, Group], context: ShardContext) -> None:
        self.groups = groups
        self.context = context
        self.internal_topics = InternalTopics(context)
        self.endpoint_epochs = EndpointEpochs(context.epoch)
        self.reported: dict[tuple[str, str], Tasks] = {}
        self.task_offsets = TaskOffsets()
        self.shutdowns: dict[str, str] = {}  # group -> the member that requested the shutdown
        self._topologies: dict[str, CurrentTopology] = {}
        self._clients: dict[str, dict[str, Client]] = {}  # group -> member; with an authorizer only
        self._topics = TopicIndex()
        self._timers = MemberTimers(context.timers, self._on_expired)
        self.connections = MemberConnections(self._timers)

    def group(self, group_id: str) -> StreamsGroup:
        """Errors: GroupIdNotFoundError."""
        group = self.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            raise GroupIdNotFoundError(f"there is no streams group {group_id!r}")
        return group

    def settings_of(self, group_id: str) -> StreamsGroupSettings:
        """Timeouts and assignment configs of the group."""
        return streams_settings_of_group(self.context.image, group_id, self.context.config.now)

    def assignment_configs(self, group_id: str) -> AssignmentConfigs:
        """What the assignor needs of the group's settings."""
        settings = self.settings_of(group_id)
        return AssignmentConfigs(
            settings.num_standby_replicas, settings.num_warmup_replicas, settings.acceptable_recovery_lag
        )

    def partition_count(self, topic: str) -> int | None:
        """None: the topic does not exist."""
        found = self.context.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    def current_topology(
        self, group_id: str, topology: StreamsGroupTopologyValue, reader: Client | None = None
    ) -> CurrentTopology:
        """The topology with the topics of the current image; computed again only if they changed. `reader`:
        the client of a heartbeat that is not noted yet.

        Errors: StreamsInvalidTopologyError, InvalidRegularExpressionError; CoordinatorNotAvailableError for
        new expressions or readers while this node does not know the rules.
        """
        image, known = self.context.image, self._topologies.get(group_id)
        readers = self._readers(group_id, reader) if has_expressions(topology) else frozenset()
        if known is not None and (known.topology != topology or known.readers != readers):
            known = None
        if known is not None and known.offset == image.offset:
            return known
        try:
            may_describe = common_filter(self.context.authorizer, readers)
        except CoordinatorNotAvailableError:
            if known is None:
                raise
            return known
        self._topics.look_at(image)
        found = resolved(topology, group_id, self._topics.names, may_describe)
        metadata_hash = self._topics.hash_of(required_topics(found))
        if known is not None and known.metadata_hash == metadata_hash:
            configured = known.configured
        else:
            configured = configure(found, self.partition_count)
        current = CurrentTopology(topology, readers, found, image.offset, metadata_hash, configured)
        self._topologies[group_id] = current
        return current

    def _readers(self, group_id: str, reader: Client | None) -> frozenset[Client]:
        """The known clients of the members: after a fail-over those that have sent a heartbeat."""
        known = frozenset(self._clients.get(group_id, {}).values())
        return known if reader is None else known | {reader}

    def note_client(self, group_id: str, member_id: str, client: Client | None) -> None:
        """The member has sent a heartbeat as this client."""
        if client is not None:
            self._clients.setdefault(group_id, {})[member_id] = client

    def report(self, group_id: str, member: Member, owned: Tasks) -> None:
        """Keep the tasks that the member reports. Bound: only those that are its own."""
        if owned and member.has_all(owned):
            self.reported[group_id, member.member_id] = owned
        else:
            self.reported.pop((group_id, member.member_id), None)

    # --- sessions -------------------------------------------------------------------------------------------

    def begin_session(self, group_id: str, member: Member, now: Now) -> None:
        """Renew the member's session, and start its revocation deadline if it has to revoke."""
        member_id = member.member_id
        session_ms = self.settings_of(group_id).session_timeout_ms
        self._timers.begin_session(group_id, member_id, session_ms, now)
        group = self.groups.get(group_id)
        before = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        self._timers.expect_revocation(
            group_id,
            member_id,
            member.metadata.rebalance_timeout_ms,
            now,
            is_due=member.state is MemberState.UNREVOKED_TASKS,
            has_changed=before is None or before.pending != member.pending,
        )

    def _on_expired(self, group_id: str, member_id: str, now: Now, missed_revocation: bool) -> Outcome:
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if member is None or (missed_revocation and member.state is not MemberState.UNREVOKED_TASKS):
            return Outcome()
        assert isinstance(group, StreamsGroup)
        return self.take_out(group, [member_id], now)

    def take_out(self, group: StreamsGroup, member_ids: Sequence[str], now: Now) -> Outcome:
        """Remove members. If the append fails, they get another session."""
        del now
        draft = StreamsDraft(group)
        draft.remove(member_ids)
        members = [group.members[member_id] for member_id in member_ids]
        for member in members:
            self._timers.forget(group.group_id, member.member_id)
            self.connections.forget(group.group_id, member.member_id)
            self.endpoint_epochs.changed(group.group_id, member, None)

        def failed(error: KafkaError, then: Now) -> Outcome:
            del error
            for member in members:
                self.begin_session(group.group_id, member, then)
            return Outcome()

        return Outcome(draft.decided(), on_failed=failed)

    # --- delayed assignments --------------------------------------------------------------------------------

    def delay_first_assignment(self, group_id: str, now: Now) -> None:
        """Start the initial rebalance delay, unless it runs."""
        delay_ms = self.settings_of(group_id).initial_rebalance_delay_ms
        if delay_ms > 0 and not self.is_first_assignment_delayed(group_id):
            self._assign_at(_initial_delay(group_id), group_id, now.ms + delay_ms)

    def is_first_assignment_delayed(self, group_id: str) -> bool:
        """Whether the initial rebalance delay runs."""
        return self.context.timers.deadline_of(_initial_delay(group_id)) is not None

    def is_too_early(self, group: StreamsGroup, now: Now) -> bool:
        """Whether the assignment interval has not passed since the last assignment; the next assignment is
        then computed when it has, without waiting for a heartbeat."""
        age_ms = now.wall_ms - group.assignment_ms
        left_ms = self.settings_of(group.group_id).assignment_interval_ms - age_ms
        if age_ms < 0 or left_ms <= 0:  # negative age: the wall clock was set back
            return False
        key = ("next assignment", group.group_id)
        if self.context.timers.deadline_of(key) is None:
            self._assign_at(key, group.group_id, now.ms + left_ms)
        return True

    def _assign_at(self, key: Hashable, group_id: str, deadline_ms: int) -> None:
        self.context.timers.set(key, deadline_ms, lambda now: self._assign(group_id, now))

    def _assign(self, group_id: str, now: Now) -> Outcome:
        """Compute the assignment of the group epoch, unless the initial delay still runs."""
        group = self.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.topology is None or group.is_empty:
            return Outcome()
        draft = StreamsDraft(group)
        if not draft.needs_assignment or self.is_first_assignment_delayed(group_id):
            return Outcome()
        try:
            configured = self.current_topology(group_id, group.topology).configured
        except KafkaError:
            return Outcome()  # the next heartbeat returns the error
        configs = self.assignment_configs(group_id)
        draft.assign(configured, configs, self.task_offsets.lags(group_id), now.wall_ms)
        return Outcome(draft.decided())

    # --- the end of members and groups ----------------------------------------------------------------------

    def member_replaced(self, group_id: str, member_id: str) -> None:
        """End the session of a static member that rejoined under another member id."""
        self._timers.forget(group_id, member_id)
        self.connections.forget(group_id, member_id)
        self._clients.get(group_id, {}).pop(member_id, None)

    def member_removed(self, group: StreamsGroup, member_id: str) -> None:
        """Drop the soft state of a removed member, and a shutdown with the last member."""
        self.reported.pop((group.group_id, member_id), None)
        self.connections.forget(group.group_id, member_id)
        self.task_offsets.forget(group.group_id, member_id)
        self._clients.get(group.group_id, {}).pop(member_id, None)
        if group.is_empty:
            self.shutdowns.pop(group.group_id, None)

    def group_removed(self, group_id: str) -> None:
        """Drop the soft state of a deleted group."""
        self._topologies.pop(group_id, None)
        self._clients.pop(group_id, None)
        self.endpoint_epochs.forget(group_id)
        self.task_offsets.forget(group_id)
        self.internal_topics.forget(group_id)
        self.context.timers.cancel(_initial_delay(group_id))
        self.context.timers.cancel(("next assignment", group_id))


def _initial_delay(group_id: str) -> Hashable:
    return ("initial rebalance", group_id)
