"""Reading from the replica in the same rack (KIP-392): three real nodes, and their counters."""

from dataclasses import replace
from typing import Any

from headrace import NewTopic, local
from headrace.services.local_io import LocalCluster
from waiting import wait_for

RACKS = ("a", "b", "c")  # of the nodes 1, 2, 3
FAST = {"broker_session_timeout_ms": 2_500, "broker_heartbeat_interval_ms": 300}  # deaths are noticed soon


def put_into_racks(cluster: LocalCluster) -> None:
    """Each node starts again with a config of its own, which `local` has none for."""
    configs = cluster._cores._node_configs
    for index, rack in enumerate(RACKS):
        configs[index] = replace(configs[index], broker_rack=rack)
        cluster.restart_node(index)


def counted(cluster: LocalCluster, node_id: int, name: str) -> int:
    return int(cluster.status()["nodes"][node_id - 1]["counters"][name])


def read_up_to(consumer: Any, read: list[bytes], count: int) -> None:
    while len(read) < count:
        records = consumer.poll(60)
        assert records, f"{len(read)} of {count} records came"
        read += [record.value for record in records]


def test_consumer_reads_from_the_replica_in_its_rack() -> None:
    """All bytes come from the follower in the rack. A record that a dead ISR member lacks is not visible,
    although the follower has it, until the ISR shrinks. When the follower dies, too, the consumer reads from
    the leader: each record once, in order."""
    with local(nodes=3, replica_selector_class="RackAwareReplicaSelector", **FAST) as cluster:
        put_into_racks(cluster)
        with cluster.admin() as admin, cluster.producer(acks="all", linger_ms=0) as producer:
            admin.create_topics(NewTopic("t", 1, 3)).raise_for_errors()

            def partition() -> Any:
                return admin.describe_topics("t")["t"].partitions[0]

            wait_for(lambda: len(partition().isr) == 3, "all replicas are in sync")
            leader = partition().leader
            near, far = (node_id for node_id in (1, 2, 3) if node_id != leader)
            sent = [b"%d" % number for number in range(200)]
            for value in sent:
                producer.send("t", value)
            producer.flush()
            with cluster.consumer(
                "t", client_rack=RACKS[near - 1], auto_offset_reset="earliest", fetch_max_wait_ms=100
            ) as consumer:
                read: list[bytes] = []
                read_up_to(consumer, read, len(sent))
                assert counted(cluster, near, "fetched_bytes") > sum(map(len, sent))
                assert counted(cluster, leader, "fetched_bytes") == 0

                cluster.kill_node(far - 1)
                before = counted(cluster, near, "replicated_in_bytes")
                sent.append(b"not committed yet")
                pending = producer.send("t", sent[-1])
                wait_for(
                    lambda: counted(cluster, near, "replicated_in_bytes") > before, "the follower has it"
                )
                early = [record.value for record in consumer.poll(1)]
                assert not early or len(partition().isr) == 2, "shown before it was committed"
                read += early
                read_up_to(consumer, read, len(sent))
                pending.result(60)
                assert counted(cluster, leader, "fetched_bytes") == 0

                cluster.kill_node(near - 1)
                sent += [b"after %d" % number for number in range(100)]
                for value in sent[-100:]:
                    producer.send("t", value)
                producer.flush()
                read_up_to(consumer, read, len(sent))
                assert counted(cluster, leader, "fetched_bytes") > 0
                assert read == sent
