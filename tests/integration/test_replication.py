"""Three real nodes and a controller: acknowledged records survive a killed leader."""

from headrace import NewTopic, local

BATCH, ROUNDS = 100, 12


def test_acknowledged_records_survive_the_leader() -> None:
    """RF 3, acks=all: the leader is killed while records are in flight, and restarts."""
    with local(nodes=3, broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=100) as cluster:
        with cluster.admin() as admin:
            topic = NewTopic("t", 1, 3, {"min.insync.replicas": 2})
            admin.create_topics(topic)
            leader = admin.describe_topics("t")["t"].partitions[0].leader
        sent: dict[int, bytes] = {}
        with cluster.producer(acks="all") as producer:
            for number in range(ROUNDS):
                futures = [producer.send("t", b"%d-%d" % (number, each)) for each in range(BATCH)]
                if number == ROUNDS // 3:
                    cluster.kill_node(leader - 1)
                if number == 2 * ROUNDS // 3:
                    cluster.restart_node(leader - 1)
                for each, future in enumerate(futures):
                    sent[future.result(60).offset] = b"%d-%d" % (number, each)
        found: dict[int, bytes | None] = {}
        with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
            while len(found.keys() & sent.keys()) < len(sent):
                records = consumer.poll(5.0)
                assert records, f"{len(found)} of {len(sent)} records are readable"
                found.update({record.offset: record.value for record in records})
        assert {offset: found[offset] for offset in sent} == sent
        assert len(sent) == BATCH * ROUNDS
