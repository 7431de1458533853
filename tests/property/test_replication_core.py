"""The controller core under random histories of nodes, leaders and operators; planted bugs must be found."""

import pytest
from headrace.controller.state import (
    cluster_state,
    elections,
    fencing,
    in_sync,
    leader_and_isr,
    partition_changes,
    registration,
)
from headrace.controller.state.elections import Elected
from headrace.protocol.metadata import replay
from headrace.protocol.metadata.image import RECOVERED
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace
from replication_machine import Cluster

TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=150, stateful_step_count=40)


def elect_any_candidate(ballot):
    """The first active replica, in sync or not, as a clean leader."""
    return Elected(next((n for n in ballot.replicas if n in ballot.candidates), -1), is_clean=True)


def empty_the_elr(partition, target, _wish, _rules):
    """Only the ISR is eligible."""
    target.elr = ()


def elr_keeps_the_lossy(partition, target, wish, rules):
    """An unclean restart is taken for a clean one."""
    REAL_SET_ELR(partition, target, wish._replace(lossy=frozenset()), rules)


def keep_the_elr(partition, target, wish, rules):
    """min ISR is reached, and removed replicas stay eligible."""
    REAL_SET_ELR(partition, target, wish, rules._replace(min_isr=99))


def complete_early(isr, replicas, removing):
    """One replica of the target is enough."""
    kept = tuple(node for node in isr if node not in removing)
    return kept or None


def unclean_says_recovered(partition, target, wish, rules):
    """Possible losses of records are not recorded."""
    REAL_ELECT(partition, target, wish, rules)
    target.recovery_state = RECOVERED


def no_bump_on_removal(topic_id, number, partition, target):
    """The leader epoch rises only with the leader."""
    record = REAL_RECORD(topic_id, number, partition, target)
    is_same = record is not None and record.leader == partition.leader
    return replace(record, leader=None) if is_same else record


def every_replica_is_eligible(_image, _partition, _member, _broker_epoch):
    """KIP-841 and 903 undone."""


def versions_are_not_checked(_partition, _node_id, _item):
    """Old leaders may change ISRs."""


def leaving_nodes_may_stay(self, node_id):
    """The node that is being fenced is a candidate."""
    return self


def every_shutdown_is_clean(self, image, before, _previous_epoch, _lost):
    """An unclean restart keeps the node eligible."""
    return self.fence(image, before, "it is registered again")


def no_log_is_truncated(_image, _request):
    """After a clean shutdown every log counts as complete."""
    return frozenset()


def one_truncated_log_counts_for_all(image, request):
    """A loss in one log ends the eligibility in all."""
    every = frozenset((t.topic_id, n) for t in image.topics.values() for n in range(len(t.partitions)))
    return every if request.lost_replicas else frozenset()


def no_partition_epoch(partition, record):
    """The partition epoch does not rise when only the ISR changes."""
    after = REAL_CHANGED(partition, record)
    if record.leader is None:
        object.__setattr__(after, "partition_epoch", partition.partition_epoch)
    return after


def unfencing_elects_no_leader(_partition, _node_id):
    """An unfenced node is not elected for partitions without a leader."""
    return False


REAL_SET_ELR = partition_changes._set_elr
REAL_ELECT = partition_changes._elect
REAL_RECORD = partition_changes._record
REAL_CHANGED = replay.changed_partition

MUTATIONS = {
    "elect-any-candidate": (leader_and_isr, "offline", elect_any_candidate),
    "forget-the-elr": (partition_changes, "_set_elr", empty_the_elr),
    "elr-keeps-unclean-restarts": (partition_changes, "_set_elr", elr_keeps_the_lossy),
    "elr-never-ends": (partition_changes, "_set_elr", keep_the_elr),
    "last-leader-too-early": (elections, "_last_known", lambda b: Elected(b.last_leader, is_clean=False)),
    "complete-early": (partition_changes, "completed_isr", complete_early),
    "unclean-leader-is-recovered": (partition_changes, "_elect", unclean_says_recovered),
    "no-bump-on-removal": (partition_changes, "_record", no_bump_on_removal),
    "every-replica-is-eligible": (in_sync, "_check_eligible", every_replica_is_eligible),
    "versions-are-not-checked": (in_sync, "_check_versions", versions_are_not_checked),
    "leaving-nodes-may-stay": (cluster_state.ClusterState, "without", leaving_nodes_may_stay),
    "every-shutdown-is-clean": (fencing.Fencing, "fence_replaced", every_shutdown_is_clean),
    "no-log-is-truncated": (registration, "lost_keys", no_log_is_truncated),
    "one-truncated-log-counts-for-all": (registration, "lost_keys", one_truncated_log_counts_for_all),
    "no-partition-epoch": (replay, "changed_partition", no_partition_epoch),
    "unfencing-elects-no-leader": (
        fencing,
        "UNFENCED",
        leader_and_isr.UNFENCED._replace(affects=unfencing_elects_no_leader),
    ),
}


@seed(1)  # shows each bug within a second; the one that Hypothesis derives from the name takes ten
class SeededCluster(Cluster):
    """The same random histories each time."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found(name, monkeypatch) -> None:
    """In histories of a fixed seed, without shrinking."""
    place, attribute, wrong = MUTATIONS[name]
    monkeypatch.setattr(place, attribute, wrong)
    found = settings(
        max_examples=1500,
        stateful_step_count=40,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(SeededCluster, settings=found)
