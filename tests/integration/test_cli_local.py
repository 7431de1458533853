"""The commands that speak to a cluster, against one in this process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from headrace.services.local_io import LocalCluster, local


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Its files are alone in their folder, so that one made beside them is seen."""
    with local(nodes=2, data_dir=str(tmp_path_factory.mktemp("cluster") / "data")) as running:
        yield running


@pytest.fixture
def topic(shell: CommandLine, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions with the test's own name."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    assert shell("topic", "create", name, "-p", "2")[0] == 0
    return name


def test_topic_is_created_described_altered_and_deleted(shell: CommandLine) -> None:
    code, out, _ = shell("topic", "create", "life", "-p", "2", "-X", "max.message.bytes=2000", "-o", "json")
    assert code == 0
    made = json.loads(out)[0]
    assert (made["topic"], made["partitions"], made["replication_factor"]) == ("life", 2, 1)
    code, out, _ = shell("topic", "list")
    assert code == 0
    assert "life" in out
    assert shell("produce", "life", "-p", "1", data=b"a\nb\n")[0] == 0
    described = shell.json("topic", "describe", "life")[0]
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert [part["records"] for part in described["partitions"]] == [0, 2]
    assert {part["leader"] for part in described["partitions"]} == {1, 2}
    code, out, _ = shell("topic", "describe", "life")
    assert "LEADER-EPOCH" in out
    assert shell("config", "alter", "--topic", "life", "--set", "max.message.bytes=3000")[0] == 0
    assert shell("topic", "add-partitions", "life", "3")[0] == 0
    described = shell.json("topic", "describe", "life")[0]
    assert described["configs"] == {"max.message.bytes": "3000"}
    assert len(described["partitions"]) == 3
    assert shell("config", "alter", "--topic", "life", "--delete", "max.message.bytes")[0] == 0
    assert shell.json("topic", "describe", "life")[0]["configs"] == {}
    assert shell("topic", "delete", "life", "--yes")[0] == 0
    assert shell("topic", "describe", "life")[0] == 3


def test_topic_errors_have_one_line_a_hint_and_an_exit_code(shell: CommandLine, topic: str) -> None:
    """It exists, it does not, its name is invalid, the config is unknown."""
    code, out, err = shell("topic", "create", topic)
    assert (code, out, err.count("\n")) == (1, "", 2)  # and a hint
    assert "TopicAlreadyExistsError" in err
    assert shell("topic", "create", "new-one", topic)[0] == 4
    assert shell("topic", "delete", "nowhere", "--yes")[0] == 3
    assert shell("topic", "create", "no/name")[0] == 1
    assert shell("topic", "create", "other", "-r", "9")[0] == 1
    code, _, err = shell("topic", "create", "other", "-X", "max.mesage.bytes=5")
    assert code == 1
    assert "max.mesage.bytes" in err
    assert shell("topic", "add-partitions", topic, "1")[0] == 1


@pytest.mark.parametrize("name", ["..", "../outside", "/etc/x", "a/../../b", "a\nb 0 9", "x" * 250, ""])
def test_hostile_topic_names_are_refused(shell: CommandLine, cluster: LocalCluster, name: str) -> None:
    """By the server; no file is created, and errors stay on one line."""
    before = sorted(cluster.data_dir.parent.glob("*"))
    for arguments, expected in (
        (("topic", "create", name), 1),
        (("topic", "describe", name), 3),
        (("topic", "delete", "--yes", name), 3),
        (("topic", "add-partitions", name, "3"), 3),
        (("config", "describe", "--topic", name), 3),
        (("config", "alter", "--topic", name, "--set", "segment.ms=1"), 3),
        (("consume", name, "-e"), 1),
    ):
        code, out, err = shell(*arguments)
        assert (code in (expected, 1), out) == (True, ""), (arguments, code, err)
        assert err.count("\n") <= 2  # and a hint
    assert sorted(cluster.data_dir.parent.glob("*")) == before
    assert not list(cluster.data_dir.rglob("*outside*"))


def test_configs_are_set_listed_and_unset(shell: CommandLine, topic: str) -> None:
    """Of a topic, a node, a group and the cluster; --all shows defaults."""
    where = (("--topic", topic), ("--node", "2"), ("--cluster-wide",), ("--group", "g"))
    pairs = (
        "retention.ms=5",
        "log.retention.ms=6",
        "log.retention.ms=7",
        "consumer.session.timeout.ms=50000",
    )
    for resource, pair in zip(where, pairs, strict=True):
        assert shell("config", "alter", *resource, "--set", pair)[0] == 0
    rows = shell.json("config", "describe", *(part for one in where for part in one))
    assert [(row["resource"], row["key"], row["value"], row["source"]) for row in rows] == [
        ("cluster", "min.insync.replicas", "1", "cluster"),
        ("cluster", "log.retention.ms", "7", "cluster"),
        ("node 2", "log.retention.ms", "6", "node"),
        ("group g", "consumer.session.timeout.ms", "50000", "group"),
        (f"topic {topic}", "retention.ms", "5", "topic"),
    ]
    # without a name: all users with credentials
    assert all(row in shell.json("config", "describe") for row in rows)
    code, out, _ = shell("config", "describe", *where[1], "--all", "-v")
    assert code == 0
    text = out
    assert (
        "node 2  log.retention.ms=6  (long)\n    node: log.retention.ms=6\n    cluster: log.retention.ms=7"
        in text
    )
    assert "node 2  node.id=2  (int, read-only)" in text
    assert shell("config", "alter", *where[0], "--append", "cleanup.policy=compact")[0] == 0
    assert shell("config", "alter", *where[0], "--subtract", "cleanup.policy=delete")[0] == 0
    _, out, _ = shell("config", "describe", *where[0])
    assert out.split() == [
        *("RESOURCE", "KEY", "VALUE", "SOURCE"),
        *("topic", topic, "cleanup.policy", "compact", "topic"),
        *("topic", topic, "retention.ms", "5", "topic"),
    ]
    _, out, _ = shell("config", "alter", *where[0], "--delete", "retention.ms", "--dry-run", "-o", "json")
    assert json.loads(out) == [{"resource": f"topic {topic}", "state": "could be changed"}]
    assert shell("config", "alter", *where[0], "--delete", "cleanup.policy")[0] == 0
    for resource, pair in zip(where, pairs, strict=True):
        assert shell("config", "alter", *resource, "--delete", pair.split("=")[0])[0] == 0
    _, out, err = shell("config", "describe", *where[0], *where[1])
    assert (out, err) == ("", "no configs are set; --all includes inherited values and defaults\n")


def test_config_errors_suggest_the_nearest_key(shell: CommandLine, topic: str) -> None:
    """Or say why the key cannot be set there; partial success is 4, not found 3."""
    for arguments, code, text in (
        (("--topic", topic, "--set", "retention.msx=5"), 1, "did you mean 'retention.ms'"),
        (("--cluster-wide", "--set", "retention.ms=5"), 1, "there it is log.retention.ms"),
        (("--node", "1", "--set", "log.dirs=/x"), 1, "read-only"),
        (("--node", "1", "--set", "background.threads=0"), 1, "at least 1"),
        (("--node", "77", "--set", "background.threads=1"), 1, "not registered"),
        (("--topic", "nowhere", "--set", "segment.ms=5"), 3, "no topic 'nowhere'"),
        (("--topic", topic, "--topic", "nowhere", "--set", "segment.ms=5"), 4, "1 of 2 resources failed"),
    ):
        found, _, err = shell("config", "alter", *arguments)
        assert (found, text in err) == (code, True), err
    assert shell("config", "describe", "--topic", "nowhere")[0] == 3


def test_deletion_needs_a_confirmation(shell: CommandLine, topic: str) -> None:
    """Without --yes and without an answer nothing is deleted; the message has the remedy."""
    code, _, err = shell("topic", "delete", topic)
    assert (code, err.splitlines()[-1]) == (
        1,
        "not confirmed, nothing was changed; `--help` shows the option that replaces the question",
    )
    assert shell("topic", "describe", topic)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "0\n1\n2\n3\n4\n"),
        (("-o", "beginning", "-c", "2"), "0\n1\n"),
        (("-o", "-2"), "3\n4\n"),
        (("-o", "3"), "3\n4\n"),
        (("-o", "end"), ""),
        (("-o", "99"), ""),
        (("-o", "s@0"), "0\n1\n2\n3\n4\n"),
        (("-o", "s@99999999999999"), ""),
        (("-o", "e@0"), ""),
        (("-o", "1", "-o", "e@99999999999999"), "1\n2\n3\n4\n"),
        (("-f", "%t/%p/%o=%s ", "-c", "1"), "TOPIC/0/0=0 "),
    ],
)
def test_consume_starts_and_stops_at_kcats_offsets(
    shell: CommandLine, topic: str, arguments: tuple[str, ...], expected: str
) -> None:
    """On a partition with five records."""
    shell("produce", topic, "-p", "0", data=b"0\n1\n2\n3\n4\n")
    code, out, err = shell("consume", topic, "-p", "0", "-e", *arguments)
    assert (code, out, err) == (0, expected.replace("TOPIC", topic), "")


def test_keys_nulls_and_headers_survive_json(shell: CommandLine, topic: str) -> None:
    """Every field of a record is written and read back."""
    shell(
        "produce",
        topic,
        "-K",
        r"\t",
        "-Z",
        "-p",
        "1",
        "-H",
        "a=1",
        "-H",
        "a=2",
        data=b"k\tv\nk2\t\n\xff\t\xfe",
    )
    code, out, _ = shell.binary("consume", topic, "-p", "1", "-e", "-K", "|", "-Z")
    assert (code, out) == (0, b"k|v\nk2|NULL\n\xff|\xfe\n")
    code, out, _ = shell("consume", topic, "-e", "-o", "json")
    records = json.loads(out)
    assert [(record["key"], record["value"]) for record in records] == [
        ("k", "v"),
        ("k2", None),
        ("/w==", "/g=="),
    ]
    assert records[0]["headers"] == [["a", "1"], ["a", "2"]]
    assert records[2]["key_encoding"] == records[2]["value_encoding"] == "base64"
    code, out, _ = shell("-o", "jsonl", "consume", topic, "-e")
    assert [json.loads(line)["offset"] for line in out.splitlines()] == [0, 1, 2]


def test_empty_topic_is_no_error(shell: CommandLine, topic: str) -> None:
    """In every output format."""
    assert shell("consume", topic, "-e")[:2] == (0, "")
    code, out, _ = shell("consume", topic, "-e", "-o", "json")
    assert (code, json.loads(out)) == (0, [])


def test_several_topics_are_consumed_at_once(shell: CommandLine, topic: str) -> None:
    shell("topic", "create", topic + "2")
    shell("produce", topic, data=b"one")
    shell("produce", topic + "2", data=b"two")
    _, out, _ = shell("consume", topic, topic + "2", "-e")
    assert sorted(out.split()) == ["one", "two"]


def test_produce_and_consume_errors(shell: CommandLine, topic: str, tmp_path: Path) -> None:
    """Unknown topic, partition or file; a record that is too large among valid ones."""
    assert shell("consume", "nowhere", "-e")[0] == 3
    assert shell("consume", topic, "-p", "7", "-e")[0] == 3
    assert shell("produce", topic, "-p", "7", data=b"x")[0] == 3
    assert shell("produce", topic, str(tmp_path / "missing"))[0] == 2
    code, _, err = shell("produce", "nowhere", data=b"x")
    assert code == 3
    assert "hint: " in err
    code, out, err = shell("produce", topic, "-o", "json", data=b"good\n" + b"x" * 3_000_000 + b"\ngood")
    assert code == 4
    assert json.loads(out)["failed"] == 1
    code, _, err = shell("produce", topic, "-X", "linger=5", data=b"x")
    assert code == 2
    assert "did you mean 'linger.ms'" in err
    assert shell("produce", topic, "-X", "fetch.min.bytes=5", data=b"x")[0] == 2  # would have no effect
    assert shell("consume", topic, "-e", "-X", "linger.ms=5")[0] == 2


def test_status_lists_storage_nodes(shell: CommandLine, cluster: LocalCluster, topic: str) -> None:
    """With -b it needs no Ray: nodes, and the partitions that each leads."""
    code, out, _ = shell("status", "-o", "json")
    facts = json.loads(out)
    assert (code, facts["state"], facts["offline_partitions"]) == (0, "running", 0)
    assert [node["node_id"] for node in facts["nodes"]] == [1, 2]
    assert ",".join(node["endpoint"] for node in facts["nodes"]) == cluster.bootstrap
    assert sum(node["leaders"] for node in facts["nodes"]) == facts["partitions"] >= 2
    code, out, _ = shell("status", "-X", "client.id=me")
    assert code == 0
    assert "LEADERS" in out


def test_unreachable_cluster_ends_a_command_soon(command_line: CommandLine) -> None:
    """Not after the minute of programs; -X sets the timeout."""
    started_s = time.monotonic()
    for command in (("status",), ("topic", "list")):
        assert command_line.at("127.0.0.1:1")(*command, "-X", "default.api.timeout.ms=200")[0] == 1
    assert time.monotonic() - started_s < 15


def test_produce_from_files(shell: CommandLine, topic: str, tmp_path: Path) -> None:
    """Several files, without a newline at the end, CRLF, another delimiter, a limit."""
    (tmp_path / "a").write_bytes(b"1\r\n2")
    (tmp_path / "b").write_bytes(b"3\n")
    _, _, err = shell("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-p", "0", "-z", "gzip")
    assert err == f"3 records sent to {topic}\n"
    assert shell("consume", topic, "-e", "-p", "0")[1] == "1\n2\n3\n"
    shell("produce", topic, "-D", ";", "-c", "2", "-p", "1", "-k", "key", data=b"x;y;z")
    assert shell("consume", topic, "-e", "-p", "1", "-f", "%k=%s,")[1] == "key=x,key=y,"


def test_log_dump_reads_segments_and_indexes(
    shell: CommandLine, command_line: CommandLine, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Of a running node; damage is reported, and the exit code is 1."""
    shell("produce", topic, "-p", "0", data=b"hello\nworld\n")
    segment = next(cluster.data_dir.glob(f"node-*/{topic}-0/*.log"))
    code, out, _ = command_line("log", "dump", str(segment))
    assert code == 0
    assert "hello" in out
    code, out, _ = command_line(
        "log", "dump", str(segment), str(segment.parent / "partition.metadata"), "-o", "json"
    )
    assert [entry["kind"] for entry in json.loads(out)][:3] == ["batch", "record", "record"]
    assert {entry["file"] for entry in json.loads(out)} == {str(path) for path in segment.parent.iterdir()}
    code, out, _ = command_line("log", "dump", "--batches", str(segment), "-o", "jsonl")
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"batch"}
    broken = tmp_path / segment.name
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    broken.write_bytes(data)
    code, _, err = command_line("log", "dump", str(broken))
    assert code == 1
    assert "1 fault found" in err
    assert command_line("log", "dump", str(tmp_path / "missing.log"))[0] == 2


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "headrace", *arguments], **options)


def test_closed_pipe_ends_consume_quietly(shell: CommandLine, cluster: LocalCluster, topic: str) -> None:
    """`headrace consume | head`: no traceback, and the shell's exit code for it."""
    shell("produce", topic, data=b"x" * 1000 + b"\n" + b"y" * 1000 + b"\n")
    read, write = os.pipe()
    os.close(read)
    process = start("-b", cluster.bootstrap, "consume", topic, "-e", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=500)
    assert (process.returncode, err) == (141, b"")


def test_ctrl_c_ends_a_following_consumer(shell: CommandLine, cluster: LocalCluster, topic: str) -> None:
    """What was printed before is complete."""
    shell("produce", topic, data=b"first")
    process = start("-b", cluster.bootstrap, "consume", topic, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"first\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=500)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")
