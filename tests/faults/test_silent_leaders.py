"""A leader that stops responding on open connections: clients continue with the next leader."""

import functools
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster, Server
from headrace.clients.cluster import metadata_io
from headrace.protocol.transport import dealer_io
from proxy import between
from waiting import PATIENCE_S, wait_for

HOUR_MS = 3_600_000
SLOW = {"request_timeout_ms": HOUR_MS}


def pause(_cluster: FaultCluster, node: Server) -> None:
    node.pause()


def isolate(cluster: FaultCluster, node: Server) -> None:
    """Freeze all links to and from a node."""
    others = [name for name in cluster.servers if name != node.name]
    cluster.network.freeze([*between([node.name], others), *cluster.client_links([node])])


def come_back(cluster: FaultCluster, node: Server) -> None:
    node.resume()
    cluster.network.heal()


@pytest.mark.parametrize("silence", [pause, isolate])
def test_clients_do_not_wait_for_a_silent_leader(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch, silence: Any
) -> None:
    """No connection breaks and no request times out: only the metadata shows the new leader. Each record is
    stored once and in order while the old leader is silent, and none is added after its return."""
    no_heartbeats = functools.partial(
        dealer_io.ConnectionOptions, heartbeat_interval_ms=HOUR_MS, heartbeat_timeout_ms=HOUR_MS
    )
    monkeypatch.setattr(dealer_io, "ConnectionOptions", no_heartbeats)
    cluster = make_cluster()
    cluster.create_topic("t", min_insync_replicas=2)
    with headrace.connect(cluster.bootstrap, client_id="client-1") as clients:
        producer = clients.producer(acks="all", linger_ms=0, delivery_timeout_ms=2 * HOUR_MS, **SLOW)
        consumer = clients.consumer("t", auto_offset_reset="earliest", **SLOW)
        sent, read = [b"before"], list[bytes]()
        producer.send("t", sent[0]).result(60)
        read_up_to(consumer, read, 1)
        node = cluster.node(cluster.leader("t"))
        silence(cluster, node)
        for number in range(50):
            sent.append(b"%d" % number)
            producer.send("t", sent[-1])
        producer.flush(60)
        read_up_to(consumer, read, len(sent))
        assert cluster.is_fenced(node.id)
        assert read == sent
        come_back(cluster, node)
        cluster.until_in_sync("t")
        sent.append(b"after")
        producer.send("t", sent[-1]).result(60)
        read_up_to(consumer, read, len(sent))
        assert read == sent
    cluster.until_replicas_agree("t")


def read_up_to(consumer: Any, read: list[bytes], count: int) -> None:
    while len(read) < count:
        records = consumer.poll(60)
        assert records, f"{len(read)} of {count} records were delivered"
        read += [record.value for record in records]


def test_stale_node_list_is_hedged_to_other_addresses(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last refresh saw node 1 alone, which then stops. Neither metadata nor an admin operation waits for
    the timeout of a request to it, which is an hour here."""
    no_heartbeats = functools.partial(
        dealer_io.ConnectionOptions, heartbeat_interval_ms=HOUR_MS, heartbeat_timeout_ms=HOUR_MS
    )
    monkeypatch.setattr(dealer_io, "ConnectionOptions", no_heartbeats)
    monkeypatch.setattr(metadata_io, "REFRESH_TIMEOUT_MS", HOUR_MS)
    cluster = make_cluster()
    first, *others = cluster.nodes
    with headrace.connect(cluster.bootstrap, client_id="client-1") as clients:
        admin = clients.admin(default_api_timeout_ms=HOUR_MS, **SLOW)
        hub = clients.io.hub

        def known_nodes() -> list[int]:
            view = clients.io.call(hub.metadata.refresh(hub.now_ms() + HOUR_MS), PATIENCE_S)
            return sorted(view.nodes)

        for node in others:
            node.stop()
        wait_for(lambda: known_nodes() == [first.id], "one node is left in the client's list")
        for node in others:
            node.start()
            cluster.until(lambda node=node: not cluster.is_fenced(node.id), f"{node.name} serves")
        assert sorted(hub.metadata.view.nodes) == [first.id], "the list is stale"
        first.pause()
        assert {*known_nodes()} >= {node.id for node in others}
        admin.create_topics(headrace.NewTopic("t"), timeout=PATIENCE_S).raise_for_errors()
        assert [topic.name for topic in admin.list_topics(timeout=PATIENCE_S)] == ["t"]
        assert first.is_standing_still
        first.resume()
