"""The commands for groups and transactions, against three nodes, real members and real transactions."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from command_line import CommandLine
from hanging_transaction import hang
from headrace import TopicPartition
from headrace.services.local_io import LocalCluster, local
from waiting import wait_for

FAST: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_lag_interval_ms": 100,
    "offsets_topic_num_partitions": 6,
    "transaction_state_log_num_partitions": 6,
    "log_retention_ms": -1,  # some records are from long ago
    "transaction_partition_verification_enable": False,  # as before Kafka had it: so transactions can hang
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes; their coordinators are spread over all of them."""
    with local(nodes=3, **FAST) as running:
        yield running


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_is_listed_described_reset_and_deleted(
    cluster: LocalCluster, shell: CommandLine, tmp_path: Path, protocol: str
) -> None:
    """Described while it reads; reset by every rule once it is empty."""
    topic = name = f"life-{protocol}"
    assert shell("topic", "create", topic, "-p", "2", "-r", "3")[0] == 0
    with headrace.Producer(cluster.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0, timestamp=1_000 * (number + 1)).result(60)
    with headrace.Consumer(
        topic,
        bootstrap=cluster.bootstrap,
        group_id=name,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        assert consumer.poll(60)
        consumer.commit({TopicPartition(topic, 0): 4})
        look(shell, name, topic, protocol)
        wait_for(lambda: lag_of(cluster, name) == {f"{topic}-0": 6}, "its node knows how far it is behind")
        assert counted(cluster, "group-count")[protocol] == 1
        assert counted(cluster, "num-partitions")["active"] == 6
    wait_for(lambda: shell.json("group", "describe", name)[0]["state"] == "Empty", "its member has left")
    reset(shell, name, topic, tmp_path)
    remove(shell, name, topic)


def lag_of(cluster: LocalCluster, name: str) -> Any:
    """The state of the group, from its coordinator."""
    response = [node["coordinators"]["consumer_lag"] for node in cluster.status()["nodes"]]
    return next((each[name] for each in response if name in each), None)


def counted(cluster: LocalCluster, name: str) -> Counter[str]:
    """A metric of groups, of all nodes."""
    nodes = cluster.status()["nodes"]
    metrics = [node["coordinators"]["metrics"]["group-coordinator-metrics"] for node in nodes]
    return sum((Counter(each.get(name, {})) for each in metrics), Counter())


def look(shell: CommandLine, name: str, topic: str, protocol: str) -> None:
    """While its member reads; and what members forbid."""

    def is_stable() -> bool:
        return [row["group"] for row in shell.json("group", "list", "--state", "Stable")] == [name]

    wait_for(is_stable, "all partitions are assigned")
    (row,) = shell.json("group", "list", "--type", protocol)
    assert (row["group"], row["protocol"]) == (name, "consumer")
    (facts,) = shell.json("group", "describe", name)
    assert (facts["type"], facts["members"], facts["lag"]) == (protocol, 1, 6)
    first, second = facts["partitions"]
    assert (first["committed"], first["end"], first["lag"]) == (4, 10, 6)
    assert (second["committed"], second["end"], second["lag"]) == (None, 0, None)
    assert first["member"] == second["member"]
    assert first["host"]
    (member,) = shell.json("group", "members", name)
    assert member["assignment"] == [f"{topic}:0,1"]
    code, _, err = shell("group", "reset", name, "--all-topics", "--to-latest", "--execute")
    assert (code, "NonEmptyGroupError" in err) == (1, True)
    code, _, err = shell("group", "delete", name, "--yes")
    assert (code, "NonEmptyGroupError" in err) == (1, True)
    code, _, err = shell("group", "delete-offsets", name, "--topic", topic)
    assert (code, "GroupSubscribedToTopicError" in err) == (1, True)


def reset(shell: CommandLine, name: str, topic: str, folder: Path) -> None:
    """Each reset rule in turn, on the result of the previous one."""
    place = ("--topic", f"{topic}:0")
    steps: list[tuple[tuple[str, ...], int]] = [
        (("--to-current",), 4),
        (("--shift-by", "3"), 7),
        (("--shift-by", "-100"), 0),
        (("--to-offset", "5"), 5),
        (("--to-latest",), 10),
        (("--to-datetime", "1970-01-01T00:00:08.500"), 8),
        (("--by-duration", "P365D"), 10),
        (("--to-earliest",), 0),
    ]
    before = 4
    for rule, after in steps:
        row = {"group": name, "topic": topic, "partition": 0, "old": before, "new": after}
        assert shell.json("group", "reset", name, *place, *rule) == [row]
        assert shell.json("group", "reset", name, *place, *rule, "--execute") == [row]
        before = after
    file = folder / "offsets.csv"
    file.write_text(f"{topic},0,3\n{topic},1,0\n")
    assert shell("group", "reset", name, "--from-file", str(file), "--execute")[0] == 0
    code, out, _ = shell("group", "reset", name, "--all-topics", "--to-current", "--export")
    assert (code, out) == (0, file.read_text())
    (facts,) = shell.json("group", "describe", name)
    assert [(each["committed"], each["lag"]) for each in facts["partitions"]] == [(3, 7), (0, 0)]


def remove(shell: CommandLine, name: str, topic: str) -> None:
    """One partition's offset, then everything."""
    assert shell("group", "delete-offsets", name, "--topic", f"{topic}:1")[0] == 0
    assert len(shell.json("group", "describe", name)[0]["partitions"]) == 1
    assert shell("group", "delete", name, "--yes")[0] == 0
    assert shell("group", "describe", name)[0] == 3
    assert shell("group", "delete", name, "--yes")[0] == 3
    assert shell.json("group", "list") == []


def test_hanging_transaction_is_shown_and_aborted(cluster: LocalCluster, shell: CommandLine) -> None:
    """Open transactions are listed and left alone; a hanging one blocks readers until it is aborted."""
    topic = "transactions"
    assert shell("topic", "create", topic, "-p", "1", "-r", "3")[0] == 0
    with headrace.Producer(cluster.bootstrap, transactional_id="orders") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"one").result(60)
        (row,) = shell.json("txn", "list", "--state", "Ongoing")
        assert row["transactional_id"] == "orders"
        (facts,) = shell.json("txn", "describe", "orders")
        assert (facts["state"], facts["partitions"]) == ("Ongoing", [f"{topic}:0"])
        (open_one,) = shell.json("txn", "producers", topic)
        assert (open_one["producer_id"], open_one["start_offset"]) == (facts["producer_id"], 0)
        hang(cluster, topic, producer_id=4_000_000)
        producer.commit_transaction()
    wait_for(
        lambda: shell.json("txn", "describe", "orders")[0]["partitions"] == [], "its markers are written"
    )
    reset_new = ("group", "reset", "lagging", "--new-group", "--topic", topic)
    assert shell(*reset_new, "--to-earliest", "--execute")[0] == 0

    def lag(*options: str) -> int:
        found: int = shell.json("group", "describe", "lagging", *options)[0]["lag"]
        return found

    uncommitted = ("--isolation", "read_uncommitted")
    assert (lag(), lag(*uncommitted)) == (1, 2), "without the marker"
    assert shell.json("txn", "find-hanging", "--all", "--max-transaction-timeout", "P99999D") == []
    (row,) = shell.json("txn", "find-hanging", "--all")
    assert (row["producer_id"], row["start_offset"], row["transactional_id"]) == (4_000_000, 1, None)
    where = ("--topic", topic, "--partition", "0", "--yes")
    assert shell("txn", "abort", *where, "--start-offset", "0")[0] == 3
    code, _, err = shell("txn", "abort", *where, "--start-offset", "1")
    assert code == 0, err
    assert shell.json("txn", "find-hanging", "--all") == []
    assert (lag(), lag(*uncommitted)) == (1, 2)


def test_open_transaction_cannot_be_aborted_in_one_partition(
    cluster: LocalCluster, shell: CommandLine
) -> None:
    """Its coordinator knows it; but its producer may be fenced."""
    topic = "fencing"
    assert shell("topic", "create", topic, "-p", "1", "-r", "3")[0] == 0
    with headrace.Producer(cluster.bootstrap, transactional_id="zombie") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"one", timestamp=int(time.time() * 1000)).result(60)
        code, _, err = shell("txn", "abort", "-t", topic, "-p", "0", "--start-offset", "0", "--yes")
        assert (code, "'zombie' is Ongoing in this partition" in err) == (1, True)
        with headrace.Admin(cluster.bootstrap) as admin:
            before = admin.describe_transactions("zombie")["zombie"]
            fenced = admin.fence_producers("zombie")["zombie"]
            assert fenced.producer_id == before.producer_id
            assert fenced.producer_epoch > before.producer_epoch
        with pytest.raises(headrace.KafkaError):
            producer.commit_transaction()


def test_admin_commands_find_the_next_coordinator() -> None:
    """Groups of a dead node are listed, described and changed at the node that took over."""
    fast = {**FAST, "broker_session_timeout_ms": 1_000, "broker_heartbeat_interval_ms": 100}
    with local(nodes=3, **fast) as cluster, headrace.Admin(cluster.bootstrap) as admin:
        topic = headrace.NewTopic("t", partitions=1, replication_factor=3)
        admin.create_topics(topic).raise_for_errors()
        place = TopicPartition("t", 0)
        names = [f"g{number}" for number in range(6)]
        for name in names:
            assert admin.alter_group_offsets(name, {place: 0}, create=True)[place] is None
        before = admin.describe_groups(*names)
        dead = before["g0"].coordinator
        cluster.kill_node(dead - 1)
        assert [each.group_id for each in admin.list_groups()] == names
        after = admin.describe_groups(*names)
        assert after.errors == {}
        assert all(after[name].coordinator != dead for name in names)
        assert admin.consumer_group_lag("g0")["g0"].partitions[place].records == 0
        assert admin.delete_groups(*names).errors == {}
        assert admin.list_groups() == []
