"""Recounts the metrics that shards update incrementally."""

from collections import Counter
from typing import Any


def committed_offsets(shard: Any) -> list[tuple[Any, ...]]:
    """Group, partition and offset."""
    return [(group, *each) for group in shard.store.groups() for each in shard.store.of(group).items()]


def check_group_state_counts(shard: Any) -> None:
    """Groups by type and state, members, offsets."""
    gauges = shard.metrics().gauges
    groups = shard.groups.values()
    kinds = Counter((group.group_type.value, group.state_name) for group in groups)
    for name, count in gauges.items():
        if name.startswith("NumGroups") and name != "NumGroups":
            assert count == kinds["classic", name.removeprefix("NumGroups")], name
        elif name.startswith("consumer-group-count/"):
            assert count == kinds["consumer", name.partition("/")[2].capitalize()], name
    assert gauges["group-count/classic"] + gauges["group-count/consumer"] == len(groups)
    assert gauges["NumMembers"] == sum(group.member_count for group in groups)
    assert gauges["NumOffsets"] == len(committed_offsets(shard))


def check_transaction_state_counts(shard: Any) -> None:
    """Transactional ids by state."""
    states = Counter(transaction.state.value for transaction in shard.transactions.values())
    gauges = shard.metrics().gauges
    assert gauges == {name: states[name.removeprefix("transactional-ids/")] for name in gauges}
    assert sum(gauges.values()) == len(shard.transactions)
