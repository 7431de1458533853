"""Settings of a cluster of Kafka nodes."""

from pathlib import Path

from headrace.benchmarks.servers.kafka_cluster_io import node_settings


def test_every_kafka_node_knows_all_controllers(tmp_path: Path) -> None:
    """Listeners are its own, the quorum is that of all."""
    ports = {1: (11, 12), 2: (21, 22), 3: (31, 32)}
    found = [node_settings(number, ports, tmp_path / str(number)) for number in ports]
    assert {one["controller.quorum.bootstrap.servers"] for one in found} == {
        "127.0.0.1:12,127.0.0.1:22,127.0.0.1:32"
    }
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert found[1]["listeners"] == "PLAINTEXT://127.0.0.1:21,CONTROLLER://127.0.0.1:22"
