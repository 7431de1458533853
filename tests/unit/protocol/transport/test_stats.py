"""What a router counts."""

from headrace.protocol.transport.stats import RouterStats


def test_the_mapping_has_the_counters_only() -> None:
    """What is published has no private state in it."""
    stats = RouterStats(requests=3)
    mapping = stats.to_mapping()
    assert mapping["requests"] == 3
    assert not [name for name in mapping if name.startswith("_")]
    assert len(mapping) >= 10
