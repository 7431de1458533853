"""Offset commits of members of streams groups: the epochs at which tasks were assigned (KIP-1251)."""

from __future__ import annotations

import pytest
from headrace.coordinators.runtime.ports import ProducerIdAndEpoch
from headrace.protocol.errors import (
    IllegalGenerationError,
    KafkaError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)

from tests.fakes.streams_group_rig import APP, COUNTING, StreamsGroupRig, StreamsMember, run_app, topology

STALE, UNKNOWN = StaleMemberEpochError.code, UnknownMemberIdError.code


class Group:
    """Two members: `first` has kept tasks from before `second` joined, and revoked others."""

    def __init__(self, topic: str = "events", **changes: object) -> None:
        self.topic = topic
        self.rig = StreamsGroupRig(transaction_partition_verification_enable=False)
        self.rig.set_topics(**{topic: 4, "app-counts-changelog": 4})
        sent = topology(COUNTING._replace(**changes))  # type: ignore[arg-type]
        self.first = StreamsMember(self.rig, "a", topology=sent)
        self.second = StreamsMember(self.rig, "b", topology=sent)
        self.first.beat()
        self.old_epoch = self.first.epoch
        run_app(self.first, self.second)
        self.kept = min(self.first.tasks())[1]
        self.gone = min(self.second.tasks())[1]

    def commit(self, member: str, epoch: int, *partitions: int) -> list[int]:
        """The error code of each partition, committed one after the other."""
        codes = []
        for partition in partitions:
            answer = self.rig.commit_offset(5, member, epoch, APP, (self.topic, partition)).answer
            codes.append(answer.code if isinstance(answer, KafkaError) else answer.results[0].error_code)
        return codes

    def txn_commit(self, member: str, epoch: int, partition: int) -> int:
        """The error code of the commit in a transaction."""
        place = (self.topic, partition)
        answer = self.rig.txn_commit_offset(
            5, ProducerIdAndEpoch(9, 0), APP, place, member_id=member, generation_id=epoch
        ).answer
        return answer.code if isinstance(answer, KafkaError) else answer.results[0].error_code


@pytest.mark.parametrize(
    ("topic", "changes"),
    [("events", {}), ("in-a", {"source_topics": (), "source_topic_regex": ("in-.*",)})],
    ids=["named", "matched"],
)
def test_older_epoch_commits_tasks_that_the_member_has_had_since(
    topic: str, changes: dict[str, object]
) -> None:
    """A commit that was under way when the epoch changed is accepted for tasks that stayed, and fenced for
    revoked ones, also after a reload."""
    group = Group(topic, **changes)
    assert group.old_epoch < group.first.epoch
    for reload in (False, True):
        if reload:
            group.rig.reload()
        assert group.commit("a", group.first.epoch, group.kept) == [0]
        assert group.commit("a", group.old_epoch, group.kept, group.gone) == [0, STALE]
        assert group.commit("a", group.first.epoch + 1, group.kept) == [STALE]
        assert group.commit("b", group.old_epoch, group.gone) == [STALE], "assigned later"
        assert group.commit("b", group.second.epoch, group.gone) == [0]
        assert group.commit("c", group.first.epoch, group.kept) == [UNKNOWN]


def test_transactions_are_fenced_by_the_same_epochs() -> None:
    """With the errors that transactional clients know."""
    group = Group()
    assert group.txn_commit("a", group.old_epoch, group.kept) == 0
    assert group.txn_commit("a", group.old_epoch, group.gone) == IllegalGenerationError.code
    assert group.txn_commit("b", group.old_epoch, group.gone) == IllegalGenerationError.code
    assert group.txn_commit("c", group.first.epoch, group.kept) == UNKNOWN


def test_member_that_was_removed_cannot_commit() -> None:
    """A zombie: its session expired, or it left, and it reads on."""
    group = Group()
    epoch, task = group.second.epoch, group.gone
    group.second.leave()
    assert group.commit("b", epoch, task) == [UNKNOWN]
    run_app(group.first)
    assert group.commit("a", group.first.epoch, task) == [0]
