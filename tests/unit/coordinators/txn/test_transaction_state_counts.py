"""What a shard of transactions counts."""

from recount import check_transaction_state_counts
from txn_rig import TxnRig


def test_ends_are_counted_once(rig: TxnRig) -> None:
    """When this shard decides them; loaded records do not count."""
    producer = rig.begun()
    for commit in (True, False, True):
        rig.write(producer, ("t", 0), "x")
        answer = rig.end(producer, commit=commit).answer
        producer = (answer.producer_id, answer.producer_epoch)
        rig.settle()
    assert rig.shard.metrics().counts == {"transaction-commit-count": 2, "transaction-abort-count": 1}
    assert rig.shard.metrics().gauges["transactional-ids/CompleteCommit"] == 1
    rig.restart()
    assert rig.shard.metrics().counts == {"transaction-commit-count": 0, "transaction-abort-count": 0}
    check_transaction_state_counts(rig.shard)
