"""Commands that stand for tools of Kafka's: replicas, agents, metadata on disk, formatted dirs."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import headrace
import pytest
from command_line import CommandLine
from headrace.controller.quorum.snapshots import list_snapshots, read_snapshot
from headrace.runtime.files.files_io import OsFiles

SECRET = "pass-" + secrets.token_hex(8)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2, data_dir=str(tmp_path_factory.mktemp("cluster") / "data")) as running:
        topic = headrace.NewTopic("orders", partitions=2, replication_factor=2)
        running.admin().create_topics(topic).raise_for_errors()
        yield running


def test_agents_report_what_they_sent_and_read(shell: CommandLine) -> None:
    """The events of kafka-verifiable-producer and -consumer; each value is read once."""
    code, out, _ = shell(*["verifiable", "produce", "orders", "--max-messages", "30", "--value-prefix", "4"])
    sent = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert sent[0]["name"] == "startup_complete"
    acked = [each for each in sent if each["name"] == "producer_send_success"]
    assert sorted(each["value"] for each in acked) == sorted(f"4.{number}" for number in range(30))
    assert sent[-1]["name"] == "tool_data"
    assert (sent[-1]["sent"], sent[-1]["acked"]) == (30, 30)
    code, out, _ = shell(
        *["verifiable", "consume", "orders", "--group-id", "agents", "--max-messages", "30", "-v"]
    )
    read = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    values = sorted(each["value"] for each in read if each["name"] == "record_data")
    assert values == sorted(each["value"] for each in acked)
    assert sum(each["count"] for each in read if each["name"] == "records_consumed") == 30
    committed = [each for each in read if each["name"] == "offsets_committed"][-1]
    assert committed["success"]
    assert sum(each["offset"] for each in committed["offsets"]) == 30
    assert shell.json("group", "describe", "agents")[0]["lag"] == 0


def test_equal_replicas_are_verified(shell: CommandLine) -> None:
    assert shell("produce", "orders", data=b"a\nb\nc\n")[0] == 0
    rows = shell.json("partition", "verify", "orders")
    assert [(row["state"], sorted(row["replicas"])) for row in rows] == [("equal", [1, 2])] * 2
    assert sum(row["batches"] for row in rows) > 0
    assert all(row["compared_to"] == row["end"] for row in rows)


def test_metadata_on_disk_is_browsed_without_secrets(
    shell: CommandLine, cluster: headrace.LocalCluster, command_line: CommandLine
) -> None:
    """While the controller runs; the password of a user is nowhere, not even hashed."""
    assert shell("user", "create", "ann", "--password-stdin", data=SECRET.encode())[0] == 0
    data = str(cluster.data_dir)
    assert "orders/" in command_line("metadata", "ls", data, "/topics/by-name")[1].splitlines()
    partition = command_line.json("metadata", "cat", data, "/topics/by-name/orders/0")
    assert sorted(partition["replicas"]) == [1, 2]
    commands = b"cd /topics/by-name/orders\npwd\nls\nnonsense\ncat 1/..\nexit\nls /\n"
    code, out, err = command_line("metadata", "shell", data, data=commands)
    assert code == 0
    assert out.splitlines()[:4] == ["/topics/by-name/orders", "id", "0", "1"]
    assert "no command 'nonsense'" in err
    assert "brokers/" not in out
    whole = command_line("metadata", "tree", data)[1] + command_line("metadata", "log", data)[1]
    assert "iterations" in whole
    for hidden in ("stored_key", "server_key", "salt", SECRET):
        assert hidden not in whole
    assert command_line("metadata", "ls", data, "/nowhere")[0] == 1


def test_formatted_dirs_have_an_identity(command_line: CommandLine, tmp_path: Path) -> None:
    """A controller's has the first voters; a dir of another server is never formatted again."""
    cluster_id = command_line("storage", "random-uuid")[1].strip()
    voter = str(tmp_path / "controller")
    command = ("storage", "format", voter, "--cluster-id", cluster_id, "--controller", "3")
    (row,) = command_line.json(*command, "--standalone", "127.0.0.1:9093")
    assert (row["role"], row["id"], row["cluster_id"]) == ("controller", 3, cluster_id)
    folder = f"{voter}/__cluster_metadata-0"
    (snapshot,) = list_snapshots(OsFiles(), folder)
    (found,) = read_snapshot(OsFiles(), folder, snapshot)[1].voters
    assert (found.voter_id, found.endpoints[0].port) == (3, 9093)
    assert command_line(*command)[0] != 0
    assert command_line(*command, "--ignore-formatted")[0] == 0
    other = ("storage", "format", voter, "--cluster-id", cluster_id, "--node", "3", "--standalone", "h:1")
    assert command_line(*other)[0] == 2
    assert command_line("storage", "format", voter, "--cluster-id", "another", "--node", "3")[0] != 0
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    code, _, err = command_line(
        "storage", "format", str(tmp_path / "full"), "--cluster-id", "c", "--node", "1"
    )
    assert code != 0
    assert "not empty" in err
    assert command_line("storage", "info", str(tmp_path / "full"))[0] == 1
