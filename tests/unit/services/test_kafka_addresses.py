"""The addresses for Kafka clients that `headrace up` prints."""

from headrace.services.cli.cluster import kafka_addresses


def test_addresses_by_listener() -> None:
    """Nodes that do not respond or have no listener are left out."""
    nodes = [
        {"kafka": {"listeners": {"PLAINTEXT": "a:9092", "INNER": "x:1"}}},
        {"state": "waiting"},
        {"kafka": {"listeners": {"PLAINTEXT": "b:9093"}}},
    ]
    assert kafka_addresses(nodes) == {"kafka INNER": "x:1", "kafka PLAINTEXT": "a:9092,b:9093"}
    assert kafka_addresses([]) == {}
