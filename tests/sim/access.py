"""Rules of a simulated cluster: an administrator adds and removes them, users fetch from all nodes.

Two users have rules of their own; the third one is a member of a role with a rule, and not a member.

Requests of users pass the gate of the node that receives them, with its caches, as in production; those of
the other clients are of servers and need no rule. Any node answers the users' fetches, also one that is cut
off, and one that was paused, before it has read anything else.

Law RuleGone: no node decides by a rule or a membership that was removed longer than `bound_ms` ago, nor
without one that was added before. A node that may lack a removal has to refuse: it knows by its own clock how
old its metadata is. With one controller the bound is `authorizer.metadata.max.age.ms`. Of several, one that
was replaced may confirm old metadata until it resigns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.protocol.errors import KafkaError, TopicAuthorizationFailedError
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import FetchPartition, FetchRequest
from headrace.protocol.messages.roles import CREATE, GRANT, REVOKE, AlterRolesRequest, RoleChange
from headrace.protocol.messages.security import CreateAclsRequest, DeleteAclsRequest
from headrace.protocol.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from headrace.protocol.security.identity import Identity
from headrace.protocol.security.principals import user
from headrace.protocol.security.roles import role
from headrace.storage_node.configs.authorization_config import STANDARD_AUTHORIZER
from sim_clients import SimClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster import SimCluster
    from sim_node import SimNode
    from sim_transport import SimRequest

TOPIC = "t"
MEMBER, ROLE = "carol", "readers"
USERS = ("alice", "bob", MEMBER)
MAX_AGE_MS = 2_000
# How long a controller that was replaced, or was paused meanwhile, may go on to answer heartbeats.
REPLACED_MS = 6_000
CONFIGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "authorizer.metadata.max.age.ms": MAX_AGE_MS}
CHANGE_GAP_MS = 400  # mean
FETCH_GAP_MS = 250  # mean
TIMEOUT_MS = 1_000


MEMBERSHIP = (ROLE, str(user(MEMBER)))
Fact = tuple[Any, ...]  # a rule or a membership


def rule_of(name: str) -> AclBinding:
    """The rule that lets a user read the topic, by itself or by its role."""
    return AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        PatternType.LITERAL,
        str(role(ROLE) if name == MEMBER else user(name)),
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )


def facts_of(name: str) -> tuple[Fact, ...]:
    """What has to be in the metadata for the user to read the topic."""
    return (rule_of(name), MEMBERSHIP) if name == MEMBER else (rule_of(name),)


class Access:
    """The administrator, the users, and the law. `_changed_ms`: when a fact was last added or removed."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._random = cluster.world.stream("access")
        self.bound_ms = MAX_AGE_MS + (REPLACED_MS if cluster.plan.controllers > 1 else 0)
        self._changed_ms: dict[Fact, int] = {fact: -1 for name in USERS for fact in facts_of(name)}
        self._present: set[Fact] = set()  # in the newest committed metadata
        self._checked: dict[str, tuple[Any, int]] = {}  # by node: image and number of changes
        self._changes = 0
        self.is_on = True
        self.users = [RuledUser(cluster, name) for name in USERS]

    def start(self) -> None:
        """Begin to change rules and to fetch."""
        self._go_on()
        for each in self.users:
            each.start()

    def end(self) -> None:
        """Change no more rules."""
        self.is_on = False

    def _go_on(self) -> None:
        if self.is_on:
            self._change(self._random.choice(USERS))
            gap_ms = 1 + int(self._random.expovariate(1 / CHANGE_GAP_MS))
            self._world.after(gap_ms, "change a rule", self._go_on)

    def _change(self, name: str) -> None:
        rule, image = rule_of(name), self._cluster.rules.image
        if name == MEMBER and rule in image.acls:
            action = REVOKE if MEMBERSHIP in image.role_members else GRANT
            self._change_role(RoleChange(ROLE, action, MEMBERSHIP[1]))
        elif name == MEMBER and ROLE not in image.roles:
            self._change_role(RoleChange(ROLE, CREATE))
        elif rule in self._present:
            chosen = AclFilter(name=TOPIC, principal=rule.principal)
            self._cluster.ask_controller(registry.DELETE_ACLS, DeleteAclsRequest((chosen,)), lambda _: None)
        else:
            self._cluster.ask_controller(registry.CREATE_ACLS, CreateAclsRequest((rule,)), lambda _: None)

    def _change_role(self, change: RoleChange) -> None:
        self._cluster.ask_controller(registry.ALTER_ROLES, AlterRolesRequest((change,)), lambda _: None)

    # --- the law ------------------------------------------------------------------------------------------

    def on_metadata(self) -> None:
        """A controller has applied committed metadata."""
        image, marks = self._cluster.rules.image, self._cluster.rules.marks
        present: set[Fact] = {*image.acls, *image.role_members}
        for fact in sorted(present ^ self._present, key=repr):
            self._changed_ms[fact] = self._world.now_ms
            self._changes += 1
            kind = "member" if fact == MEMBERSHIP else "rule"
            marks[f"{kind} removed" if fact in self._present else f"{kind} added"] += 1
        self._present = present

    def check(self, node: SimNode) -> None:
        """After every event: of the rules and memberships that the node has, none is gone for longer than the
        bound."""
        core = node.core
        if core is None or self._checked.get(node.name) == (core.image, self._changes):
            return
        authorization, now_ms = core.authorization, self._world.now_ms
        authorizer = authorization.authorizer
        assert authorizer is not None
        facts: set[Fact] = {*authorizer.rules, *authorizer.roles.keys()}
        known: set[Fact] = {*core.image.acls, *core.image.role_members}
        assert facts == known, f"RuleGone: {node.name} obeys {facts} at {core.image.offset}"
        if facts == self._present:
            self._checked[node.name] = (core.image, self._changes)
            return
        authorization.note_time(now_ms)
        for fact in sorted(facts ^ self._present, key=repr) if authorizer.is_ready else ():
            self._require_recent((fact,), f"{node.name} at metadata offset {core.image.offset}")

    @staticmethod
    def topic_of(request: SimRequest) -> bytes:
        """The id of the topic that a user fetches."""
        return bytes(request.body.partitions[0].topic_id)

    def on_decided(self, node: SimNode, request: SimRequest, *, is_allowed: bool) -> None:
        """The gate of a node has decided about a user's request."""
        facts = facts_of(request.peer.identity.principal.name)
        if is_allowed != self._present.issuperset(facts):
            self._require_recent(facts, f"{node.name}: a user is {'' if is_allowed else 'not '}allowed")
            self._cluster.rules.marks["decided by a removed rule"] += is_allowed
        self._cluster.rules.marks["allowed" if is_allowed else "denied"] += 1

    def on_undecided(self) -> None:
        """A node has refused to decide: its metadata may be too old."""
        self._cluster.rules.marks["rules unknown"] += 1

    def _require_recent(self, facts: tuple[Fact, ...], where: str) -> None:
        """One of the facts was changed within the bound."""
        last = max(facts, key=lambda fact: self._changed_ms[fact])
        ago_ms = self._world.now_ms - self._changed_ms[last]
        change = "added" if last in self._present else "removed"
        assert ago_ms <= self.bound_ms, f"RuleGone: {where}, {last} was {change} {ago_ms} ms ago"

    def is_settled(self) -> bool:
        """Condition: each user has an answer from each node that obeys the present rules."""
        return all(
            each.answers.get(node_id) == self._present.issuperset(facts_of(each.name))
            for each in self.users
            for node_id in self._cluster.nodes
        )


class RuledUser(SimClient):
    """Fetches from all nodes in turn. `answers`: whether it was allowed the last time, None if unknown."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        super().__init__(cluster, name)
        self.identity = Identity(user(name), "10.0.0.1", "PLAIN")
        self.answers: dict[int, bool | None] = {}

    def _poll(self) -> None:
        self._look()
        found = self.view.topics.get(TOPIC)
        if found is not None:
            self._fetch(self.random.choice(sorted(self.cluster.nodes)), found.topic_id)
        self._poll_in(self.world.now_ms + 1 + int(self.random.expovariate(1 / FETCH_GAP_MS)))

    def _look(self) -> None:
        """Metadata without asking: users may not describe the topic."""
        self.view = self.cluster.producers[0].view

    def _fetch(self, node_id: int, topic_id: bytes) -> None:
        def done(response: Any, _frames: Sequence[bytes]) -> None:
            self.answers[node_id] = _was_allowed(response)

        body = FetchRequest(0, 1, 1, 0, (FetchPartition(topic_id, 0, 0, 1),), -1)
        self.ask(node_id, registry.FETCH, body, (), done, TIMEOUT_MS)


def _was_allowed(response: Any) -> bool | None:
    if isinstance(response, KafkaError):
        return None
    return bool(response.partitions[0].error_code != TopicAuthorizationFailedError.code)
