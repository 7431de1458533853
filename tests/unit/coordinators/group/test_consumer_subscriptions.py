"""Members of the new protocol that read by expression, and static members that go and come back."""

import pytest
from headrace.coordinators.group.consumer_group import GroupState
from headrace.coordinators.group.consumer_member import MemberState
from headrace.coordinators.group.member_timers import MIN_REVOCATION_MS
from headrace.protocol import errors
from headrace.protocol.security.acls import AclOperation, Resource, ResourceType
from headrace.protocol.security.identity import Identity

from tests.fakes.consumer_group_rig import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerGroupRig,
    SimClassicMember,
    SimMember,
    held_by,
    run,
)

REFRESH_MS, INTERVAL_MS = 10_000, 20_000


@pytest.fixture
def rig() -> ConsumerGroupRig:
    rig = ConsumerGroupRig(group_consumer_regex_refresh_interval_ms=INTERVAL_MS)
    rig.set_topics(log_a=2, log_b=2, other=2)
    return rig


def _by_regex(rig: ConsumerGroupRig, member_id: str, regex: str, **facts: object) -> SimMember:
    return SimMember(rig, member_id, None, regex, **facts)  # type: ignore[arg-type]


def _static(rig: ConsumerGroupRig, member_id: str, instance_id: str = "one") -> SimMember:
    return SimMember(rig, member_id, ("log_a", "other"), instance_id=instance_id)


# --- expressions ---


def test_regular_expression_is_resolved_on_join(rig: ConsumerGroupRig) -> None:
    """The first response has its partitions; the record holds the matched topics, and survives a reload."""
    first = _by_regex(rig, "a", "log_.*")
    first.beat()
    assert first.owned == {"log_a": {0, 1}, "log_b": {0, 1}}
    assert rig.group.regexes["log_.*"].topics == ("log_a", "log_b")
    assert rig.group.is_subscribed_to("log_b")
    assert not rig.group.is_subscribed_to("other")
    described = rig.describe()
    assert described.members[0].subscribed_topic_regex == "log_.*"
    rig.reload()
    assert rig.describe() == described


def test_regular_expressions_are_refreshed_at_an_interval(rig: ConsumerGroupRig) -> None:
    """Not before ten seconds have passed, so that many new topics advance the epoch once."""
    first = _by_regex(rig, "a", "log_.*")
    first.beat()
    rig.set_topics(log_a=2, log_b=2, log_c=1)
    rig.advance(REFRESH_MS - 1)
    first.beat()
    assert "log_c" not in first.owned
    rig.set_topics(log_b=2, log_c=1, log_d=1)
    rig.advance(1)
    epoch = rig.group.epoch
    run(first)
    assert set(first.owned) == {"log_b", "log_c", "log_d"}
    assert rig.group.epoch == epoch + 1
    size = len(rig.log)
    rig.advance(INTERVAL_MS - 1)
    run(first)
    assert len(rig.log) == size, "no further record was appended"


def test_wall_clock_set_back_does_not_stop_the_refresh(rig: ConsumerGroupRig) -> None:
    """Records hold the wall time."""
    first = _by_regex(rig, "a", "log_.*")
    rig.now_ms += 3_600_000
    first.beat()
    rig.now_ms -= 3_600_000
    rig.reload()
    rig.set_topics(log_a=2, log_b=2, log_c=1)
    run(first)
    assert "log_c" in first.owned


def test_expensive_expressions_do_not_delay_other_members(rig: ConsumerGroupRig) -> None:
    """Three expressions exceed their limit on new topics: they keep their matches, each is retried with the
    heartbeat of its own member, and members with other subscriptions get the new topics."""
    dear = [f"(a|b)*a(a|b){{{count}}}" for count in (400, 401, 402)]
    members = [_by_regex(rig, f"m{number}", regex) for number, regex in enumerate((*dear, "log_.*"))]
    run(*members)
    names = ["".join("ab"[(number * at) % 7 % 2] for at in range(1, 240)) for number in range(40)]
    rig.set_topics(log_a=2, log_b=2, log_c=1, **dict.fromkeys(names, 1))
    rig.advance(REFRESH_MS)
    before = {regex: rig.group.regexes[regex].version for regex in dear}
    for tried, member in enumerate(members[:3]):
        members[-1].beat()
        versions = [rig.group.regexes[regex].version > before[regex] for regex in dear]
        assert versions.count(True) == tried
        member.beat()
    run(*members)
    assert "log_c" in members[-1].owned
    assert [rig.group.regexes[regex].topics for regex in dear] == [(), (), ()]


class Rules:
    """An Authorizer: a user may describe topics that begin with the user's name, and what is `shared`."""

    def __init__(self) -> None:
        self.is_ready = True
        self.shared: set[str] = set()

    def allows(self, identity: Identity, operation: AclOperation, resource: Resource) -> bool:
        assert (operation, identity.host) == (AclOperation.DESCRIBE, "10.0.0.1")
        return resource.name in self.shared or resource.name.startswith(identity.principal.name)

    def allows_some(self, identity: Identity, operation: AclOperation, resource_type: ResourceType) -> bool:
        raise AssertionError


def _as_user(rig: ConsumerGroupRig, name: str, regex: str = ".*_.*") -> SimMember:
    return _by_regex(rig, name, regex, reader=(f"User:{name}", "10.0.0.1"))


def test_an_expression_matches_what_its_member_may_describe(rig: ConsumerGroupRig) -> None:
    """The rights are those at the time at which it is matched: again at an interval, also without new
    topics. Another member's heartbeat, with other rights, does not refresh it."""
    rules = rig.authorizer = Rules()
    log, other = _as_user(rig, "log"), _as_user(rig, "other", "o.*|log_a")
    run(log, other)
    assert set(log.owned) == {"log_a", "log_b"}
    assert set(other.owned) == {"other"}
    rules.shared = {"log_a"}
    rig.advance(INTERVAL_MS - 1)
    run(log, other)
    assert set(other.owned) == {"other"}
    rig.advance(1)
    log.beat()
    assert rig.group.regexes["o.*|log_a"].topics == ("other",)
    run(log, other)
    assert rig.group.regexes["o.*|log_a"].topics == ("log_a", "other")


def test_a_client_without_a_name_is_one_without_rights(rig: ConsumerGroupRig) -> None:
    """No rule can name it; the coordinator serves it, and others, as before."""
    rules = rig.authorizer = Rules()
    rules.allows = lambda identity, _operation, _resource: bool(identity.principal.name)  # type: ignore[method-assign]
    for nameless in ("User:", "", "absent"):
        member = _by_regex(rig, f"m{nameless}", "log.*", reader=(nameless, "10.0.0.1"))
        member.beat()
        assert not member.owned
    log = _by_regex(rig, "log", "o.*", reader=("User:log", "10.0.0.1"))
    run(log)
    assert set(log.owned) == {"other"}


def test_no_expression_is_resolved_without_the_present_rules(rig: ConsumerGroupRig) -> None:
    """A new one is refused with a retriable error, a known one keeps its topics until the rules are known."""
    rules = rig.authorizer = Rules()
    log = _as_user(rig, "log")
    log.beat()
    rules.is_ready = False
    size = len(rig.log)
    with pytest.raises(errors.CoordinatorNotAvailableError):
        _as_user(rig, "other", "oth.*").beat()
    assert len(rig.log) == size
    rig.set_topics(log_a=2, log_b=2, log_c=1)
    rig.advance(REFRESH_MS)
    log.beat()
    assert rig.group.regexes[".*_.*"].topics == ("log_a", "log_b")
    rules.is_ready = True
    run(log)
    assert set(log.owned) == {"log_a", "log_b", "log_c"}


def test_expression_is_removed_with_its_last_member(rig: ConsumerGroupRig) -> None:
    """The member leaves, subscribes to another one, or to none."""
    first, second = _by_regex(rig, "a", "log_.*"), _by_regex(rig, "b", "log_.*")
    run(first, second)
    second.leave()
    assert set(rig.group.regexes) == {"log_.*"}
    first.regex = "other|log_a"
    first.take(first.send(is_full=True))
    assert set(rig.group.regexes) == {"other|log_a"}
    first.settle()
    run(first)
    assert set(first.owned) == {"other", "log_a"}
    first.regex, first.topics = "", ("log_b",)
    first.take(first.send(is_full=True))
    first.settle()
    run(first)
    assert rig.group.regexes == {}
    assert set(first.owned) == {"log_b"}
    first.regex, first.topics = "log_b", ()
    first.take(first.send(is_full=True))
    first.leave()
    assert rig.group.is_empty
    assert rig.group.regexes == {}


def test_names_and_expression_are_united(rig: ConsumerGroupRig) -> None:
    first = SimMember(rig, "a", ("other",), "log_a")
    first.beat()
    assert set(first.owned) == {"other", "log_a"}


@pytest.mark.parametrize("regex", ["(", "a" * 1001, "(a{1000}){1000}"])
def test_invalid_expression_is_refused(rig: ConsumerGroupRig, regex: str) -> None:
    """No record is written, for new and known members."""
    first = SimMember(rig, "a", ("other",))
    with pytest.raises(errors.InvalidRegularExpressionError):
        _by_regex(rig, "b", regex).beat()
    first.beat()
    size = len(rig.log)
    first.regex = regex
    with pytest.raises(errors.InvalidRegularExpressionError):
        first.send(is_full=True)
    assert len(rig.log) == size


def test_members_with_different_subscriptions_share_common_topics(rig: ConsumerGroupRig) -> None:
    """Each subscribed partition is assigned to a member with that subscription."""
    second, third = SimMember(rig, "b", ("log_a", "other")), SimMember(rig, "c", ("other",))
    members = [_by_regex(rig, "a", "log_.*"), second, third]
    run(*members)
    held = held_by(*members)
    assert len(held) == 6
    assert all(len(readers) == 1 for readers in held.values())
    assert rig.group.state is GroupState.STABLE


# --- static members ---


def test_returning_static_member_keeps_its_assignment(rig: ConsumerGroupRig) -> None:
    """It has another member id, and its session is not over: the group epoch stays."""
    first, second = _static(rig, "a"), _static(rig, "b", "two")
    run(first, second)
    had, epoch = first.owned, rig.group.epoch
    assert first.leave(-2).member_epoch == -2
    run(second)
    rig.reload()
    back = _static(rig, "c")
    back.beat()
    assert (back.owned, back.epoch) == (had, epoch)
    run(back, second)
    assert rig.group.epoch == epoch
    assert set(rig.group.members) == {"b", "c"}
    assert rig.group.state is GroupState.STABLE


def test_partitions_of_an_absent_static_member_are_kept(rig: ConsumerGroupRig) -> None:
    """A member that joins meanwhile gets some of them only after the static member has revoked them."""
    first, second = _static(rig, "a"), _static(rig, "b", "two")
    run(first, second)
    first.leave(-2)
    others = [second, _static(rig, "c", "three"), _static(rig, "d", "four")]
    run(*others)
    assert len(held_by(*others)) == 2
    back = _static(rig, "e")
    run(back, *others)
    assert len(held_by(back, *others)) == 4
    assert {len(held_by(each)) for each in (back, *others)} == {1}


def test_absent_static_member_is_removed_after_its_session(rig: ConsumerGroupRig) -> None:
    """Its partitions are kept for that time."""
    first, second = _static(rig, "a"), _static(rig, "b", "two")
    run(first, second)
    first.leave(-2)
    rig.advance(SESSION_MS // 2)
    run(second)
    assert len(held_by(second)) == 2
    rig.advance(SESSION_MS // 2 + 1)
    run(second)
    assert len(held_by(second)) == 4


def test_static_member_leaves_for_good_with_epoch_minus_one(rig: ConsumerGroupRig) -> None:
    first, second = _static(rig, "a"), _static(rig, "b", "two")
    run(first, second)
    first.leave(-1)
    run(second)
    assert len(held_by(second)) == 4


def test_instance_id_is_reserved_until_its_member_leaves(rig: ConsumerGroupRig) -> None:
    """UNRELEASED_INSTANCE_ID for another member; the same member may join again."""
    first = _static(rig, "a")
    first.beat()
    with pytest.raises(errors.UnreleasedInstanceIdError):
        _static(rig, "b").beat()
    assert set(rig.group.members) == {"a"}
    first.forget()
    first.beat()
    assert len(held_by(first)) == 4


def test_replaced_static_member_is_fenced(rig: ConsumerGroupRig) -> None:
    """FENCED_INSTANCE_ID; an unknown member gets UNKNOWN_MEMBER_ID."""
    first = _static(rig, "a")
    first.beat()
    first.leave(-2)
    back = _static(rig, "b")
    back.beat()
    first.epoch = back.epoch
    with pytest.raises(errors.FencedInstanceIdError):
        first.send()
    with pytest.raises(errors.FencedInstanceIdError):
        first.leave()
    other = _static(rig, "c", "three")
    other.epoch = 1
    with pytest.raises(errors.UnknownMemberIdError):
        other.send()


def test_late_heartbeat_of_a_static_member_that_left_is_fenced(rig: ConsumerGroupRig) -> None:
    """It does not bring the member back."""
    first = _static(rig, "a")
    first.beat()
    first.leave(-2)
    first.epoch = 1
    with pytest.raises(errors.FencedMemberEpochError):
        first.send()
    assert rig.group.members["a"].epoch == -2


def test_full_group_accepts_a_returning_static_member() -> None:
    rig = ConsumerGroupRig(group_consumer_max_size=1)
    rig.set_topics(log_a=2, other=2)
    first = _static(rig, "a")
    first.beat()
    first.leave(-2)
    back = _static(rig, "b")
    back.beat()
    assert len(held_by(back)) == 4


def test_static_member_that_left_during_a_revocation_keeps_its_partitions(rig: ConsumerGroupRig) -> None:
    """It had not revoked the partitions; after its return it gets the same assignment again."""
    first = _static(rig, "a")
    first.beat()
    second = _static(rig, "b", "two")
    second.beat()
    first.take(first.send())
    assert rig.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    first.leave(-2)
    assert rig.deadline_of(("rebalance", GROUP, "a")) is None
    second.beat()
    back = _static(rig, "c")
    run(back, second)
    assert len(held_by(back, second)) == 4
    assert all(len(readers) == 1 for readers in held_by(back, second).values())


# --- time ---


def test_member_paused_longer_than_its_session_joins_again(rig: ConsumerGroupRig) -> None:
    """RELIABILITY scenario 54: it is unknown, drops its partitions, and gets a new assignment."""
    first, second = SimMember(rig, "a", ("log_a", "other")), SimMember(rig, "b", ("log_a", "other"))
    run(first, second)
    for _ in range(10):
        rig.advance(SESSION_MS // 9)
        second.beat()
    assert len(held_by(second)) == 4
    with pytest.raises(errors.UnknownMemberIdError):
        first.send()
    first.forget()
    run(first, second)
    held = held_by(first, second)
    assert len(held) == 4
    assert all(len(readers) == 1 for readers in held.values())


def test_further_revocation_restarts_the_rebalance_timeout(rig: ConsumerGroupRig) -> None:
    """The first deadline does not apply to partitions that must be revoked later."""
    first = SimMember(rig, "a", ("log_a", "other"))
    first.beat()
    key = ("rebalance", GROUP, "a")
    SimMember(rig, "b", ("log_a", "other")).beat()
    first.take(first.send())
    revoked_ms = rig.now_ms
    rig.advance(1_000)
    first.take(first.send())
    assert rig.deadline_of(key) == revoked_ms + REBALANCE_MS
    first.topics = ("other",)
    first.take(first.send(is_full=True))
    assert rig.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert rig.deadline_of(key) == revoked_ms + 1_000 + REBALANCE_MS
    first.settle()
    first.beat()
    assert rig.deadline_of(key) is None


def test_zero_rebalance_timeout_is_raised_to_a_minimum(rig: ConsumerGroupRig) -> None:
    """Else a removal that cannot be written would be retried without end."""
    first = SimMember(rig, "a", ("log_a", "other"), rebalance_timeout_ms=1)
    first.beat()
    SimMember(rig, "b", ("log_a", "other")).beat()
    first.take(first.send())
    assert rig.deadline_of(("rebalance", GROUP, "a")) == rig.now_ms + MIN_REVOCATION_MS
    rig.refuses = errors.NotEnoughReplicasError("no")
    rig.advance(MIN_REVOCATION_MS)
    assert rig.deadline_of(("rebalance", GROUP, "a")) == rig.now_ms + MIN_REVOCATION_MS
    rig.refuses = None
    rig.advance(MIN_REVOCATION_MS)
    assert set(rig.group.members) == {"b"}


def test_failed_removal_restarts_the_session(rig: ConsumerGroupRig) -> None:
    """While no record can be written the member stays; then it is removed."""
    first = SimMember(rig, "a", ("log_a",))
    first.beat()
    rig.refuses = errors.NotEnoughReplicasError("no")
    rig.advance(3 * SESSION_MS)
    assert "a" in rig.group.members
    rig.refuses = None
    rig.advance(SESSION_MS)
    assert rig.group.is_empty


def test_claimed_partitions_are_bounded(rig: ConsumerGroupRig) -> None:
    """Claims without ownership are not kept, nor is the state of a replaced member."""
    reported = rig.shard._consumer._members.reported
    first = _static(rig, "m0")
    first.beat()
    first.beat()
    assert reported == {(GROUP, "m0"): dict(rig.group.members["m0"].assigned)}
    for number in range(5):
        first.leave(-2)
        first = _static(rig, f"m{number + 1}")
        first.beat()
        first.beat()
    assert reported.keys() == {(GROUP, "m5")}
    first.owned["other"] = {0, *range(10_000)}
    first.send()
    assert len(reported) == 0
    first.owned = {}
    assert first.beat().assignment, "the assignment is repeated until the member reports it"
    first.beat()
    assert reported.keys() == {(GROUP, "m5")}
    first.leave()
    assert not reported


def test_unreplaced_static_member_is_removed_after_its_session(rig: ConsumerGroupRig) -> None:
    """A classic member joins with its instance id, but the append fails, and no member joins again."""
    modern = SimMember(rig, "a", ("log_a",))
    first = SimClassicMember(rig, ("log_a",), instance_id="one")
    run(modern, first)
    rig.refuses = errors.NotEnoughReplicasError("no")
    again = rig.join("", GROUP, protocols=first.protocols(), group_instance_id="one")
    assert again.code == errors.CoordinatorNotAvailableError.code
    rig.refuses = None
    for _ in range(3):
        rig.advance(10_000)
        modern.beat()
    assert set(rig.group.members) == {"a"}
