"""Members of a streams group around a group shard, and the changing topics of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.coordinators.runtime.ports import Outcome
from headrace.coordinators.streams.streams_group import GROUP_TRANSITIONS, GroupState, StreamsGroup
from headrace.coordinators.streams.tasks import Role, Task, Tasks, by_role, from_roles
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreatedTopic, CreateTopicsResponse
from headrace.protocol.messages.streams_groups import (
    StatusCode,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)
from headrace.protocol.records.streams_group_records import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)

from tests.fakes.consumer_group_rig import ConsumerGroupRig
from tests.fakes.group_rig import Asked

APP = "app"
SESSION_MS, REBALANCE_MS = 45_000, 60_000
END = 1_000_000  # end offset of each task's changelogs


def topology(*subtopologies: Subtopology, epoch: int = 0) -> StreamsGroupTopologyValue:
    """A topology; by default COUNTING."""
    return StreamsGroupTopologyValue(epoch, subtopologies or (COUNTING,))


def topic(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> TopicInfo:
    """An internal topic; `configs` with underscores for dots."""
    pairs = tuple(KeyValue(key.replace("_", "."), value) for key, value in configs.items())
    return TopicInfo(name, partitions, replicas, pairs)


# stateful: reads "events"
COUNTING = Subtopology("0", ("events",), state_changelog_topics=(topic("app-counts-changelog"),))
# stateless: reads "events"
MAPPING = Subtopology("0", ("events",))
# "0" repartitions "events" for "1", which joins with "users" and counts
KEYING = Subtopology("0", ("events",), repartition_sink_topics=("app-keyed-repartition",))
JOINING = Subtopology(
    "1",
    ("users",),
    state_changelog_topics=(topic("app-joined-changelog", cleanup_policy="compact"),),
    repartition_source_topics=(topic("app-keyed-repartition", replicas=2),),
    copartition_groups=(CopartitionGroup((0,), (), (0,)),),
)


class StreamsGroupRig(ConsumerGroupRig):
    """Asserts the invariants of its groups after every step. Topics that the coordinator creates exist once
    `create_topics` is called."""

    def __init__(self, **keys: Any) -> None:
        self._streams_states: dict[str, GroupState] = {}
        delays = {
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_assignment_interval_ms": 0,
        }
        super().__init__(**{**delays, **keys})

    def _carry_out(self, outcome: Outcome, request: Asked | None) -> None:
        super()._carry_out(outcome, request)
        found = {name: each for name, each in self.shard.groups.items() if isinstance(each, StreamsGroup)}
        for group_id, group in found.items():
            group.check()
            before = self._streams_states.get(group_id, group.state)
            assert group.state is before or group.state in GROUP_TRANSITIONS[before], (
                f"{before} {group.state}"
            )
        self._streams_states = {group_id: group.state for group_id, group in found.items()}

    def send(self, body: StreamsGroupHeartbeatRequest, session: int = 1) -> Any:
        """Send a heartbeat over a connection. Errors: those of the coordinator."""
        answer = self.request(registry.STREAMS_GROUP_HEARTBEAT, body, session=session).answer
        if isinstance(answer, errors.KafkaError):
            raise answer
        return answer

    def described(self, group_id: str = APP) -> Any:
        body = StreamsGroupDescribeRequest((group_id,))
        return self.request(registry.STREAMS_GROUP_DESCRIBE, body).answer.groups[0]

    @property
    def app(self) -> StreamsGroup:
        found = self.shard.groups[APP]
        assert isinstance(found, StreamsGroup)
        return found

    def topic_counts(self) -> dict[str, int]:
        return {name: len(each.partitions) for name, each in self.image.topics.items()}

    def create_topics(self) -> dict[str, int]:
        """Create the topics that the coordinator has requested, and answer it; name -> partitions."""
        created: dict[str, int] = {}
        while self.sent:
            sent = self.sent[0]
            assert sent.api is registry.CREATE_TOPICS
            created |= {spec.name: spec.num_partitions for spec in sent.body.topics}
            self.reply(CreateTopicsResponse(tuple(CreatedTopic(spec.name) for spec in sent.body.topics)))
        self.set_topics(**{**self.topic_counts(), **created})
        return created


@dataclass(eq=False)
class StreamsMember:
    """A stream thread that closes revoked tasks before it opens new ones, and reports its tasks when they
    change. `lag_of`: the lag of a task's stores; None: it reports no offsets."""

    rig: StreamsGroupRig
    member_id: str
    process_id: str = ""
    topology: StreamsGroupTopologyValue = field(default_factory=topology)
    rack_id: str | None = None
    endpoint: Endpoint | None = None
    tags: tuple[KeyValue, ...] = ()
    group_id: str = APP
    lag_of: Callable[[Task, Role], int] | None = None
    session: int = 1  # its connection
    epoch: int = 0
    endpoint_epoch: int = -1
    owned: dict[Task, Role] = field(default_factory=dict)
    wanted: dict[Task, Role] = field(default_factory=dict)
    last_reported: Tasks | None = None
    last_sent: StreamsGroupHeartbeatRequest | None = None
    statuses: tuple[StatusCode, ...] = ()

    def request(self, *, is_full: bool = False, **changes: Any) -> StreamsGroupHeartbeatRequest:
        """The next heartbeat; with all fields if it is full or a join."""
        is_join = self.epoch == 0
        is_full = is_full or is_join
        tasks = by_role(self.owned) if is_full or self.owned != self.last_reported else (None, None, None)
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
            "rack_id": self.rack_id if is_full else None,
            "rebalance_timeout_ms": REBALANCE_MS if is_full else -1,
            "topology": self.topology if is_join else None,
            "active": tasks[0],
            "standby": tasks[1],
            "warmup": tasks[2],
            "process_id": (self.process_id or f"process-{self.member_id}") if is_full else None,
            "user_endpoint": self.endpoint if is_full else None,
            "client_tags": self.tags if is_full else None,
            **self.offsets(),
        }
        return StreamsGroupHeartbeatRequest(**{**fields, **changes})

    def offsets(self) -> dict[str, tuple[TaskOffset, ...]]:
        """The offsets of its stores, if it reports them."""
        lag_of = self.lag_of
        if lag_of is None:
            return {}
        lags = {task: lag_of(task, role) for task, role in sorted(self.owned.items())}
        return {
            "task_offsets": tuple(TaskOffset(*task, END - lag) for task, lag in lags.items()),
            "task_end_offsets": tuple(TaskOffset(*task, END) for task in lags),
        }

    def send(self, *, is_full: bool = False, **changes: Any) -> Any:
        """Send a heartbeat without processing its response. If it reports tasks, an assignment of an earlier
        response that the member has not adopted yet is void. Errors: those of the coordinator."""
        self.last_sent = self.request(is_full=is_full, **changes)
        if self.last_sent.active is not None:
            self.wanted = dict(self.owned)
        return self.rig.send(self.last_sent, self.session)

    def take(self, answer: Any) -> None:
        """Process a response: the member's epoch and tasks."""
        assert self.last_sent is not None
        self.epoch = answer.member_epoch
        self.endpoint_epoch = answer.endpoint_information_epoch
        self.statuses = tuple(StatusCode(each.status_code) for each in answer.status)
        if self.last_sent.active is not None:
            self.last_reported = dict(self.wanted)
        if answer.active is not None:
            self.wanted = from_roles(answer.active, answer.standby, answer.warmup)

    def settle(self) -> None:
        """Close tasks outside of the target assignment, open those in it."""
        self.owned = dict(self.wanted)

    def beat(self, *, is_full: bool = False, **changes: Any) -> Any:
        """Send a heartbeat, process the response, and adopt the assignment."""
        answer = self.send(is_full=is_full, **changes)
        self.take(answer)
        self.settle()
        return answer

    def leave(self, **changes: Any) -> Any:
        answer = self.rig.send(StreamsGroupHeartbeatRequest(self.group_id, self.member_id, -1, **changes))
        self.forget()
        return answer

    def forget(self) -> None:
        """Restart without any state."""
        self.epoch, self.owned, self.wanted, self.last_reported = 0, {}, {}, None

    def resend(self) -> Any:
        """Send the last heartbeat again."""
        assert self.last_sent is not None
        return self.rig.send(self.last_sent)

    def tasks(self, role: Role = Role.ACTIVE) -> set[Task]:
        """The member's tasks in a role."""
        return {task for task, held in self.owned.items() if held is role}


def run_app(*members: StreamsMember, rounds: int = 12) -> None:
    """All members send heartbeats in turn."""
    for _ in range(rounds):
        for member in members:
            member.beat()


def tasks_of(subtopology_id: str, partitions: Iterable[int]) -> set[Task]:
    """Tasks of a subtopology."""
    return {(subtopology_id, partition) for partition in partitions}
