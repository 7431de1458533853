"""`headrace topic describe`, `partition` and `node` over a fake cluster: output, exit codes."""

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from fake_cluster import Ask, FakeCluster


@pytest.fixture
def fake() -> FakeCluster:
    """Three nodes; topic t has two partitions on all of them, led by 0 and 1, where 0 is preferred."""
    fake = FakeCluster(3, latency_ms=0)
    fake.create("t", 2)
    for part in fake.topics["t"].partitions:
        part.replicas, part.isr = (0, 1, 2), (0, 1, 2)
    return fake


def test_describe_shows_isr_elr_and_epochs(shell: CommandLine, fake: FakeCluster) -> None:
    """Columns of a reassignment only during one."""
    part = fake.topics["t"].partitions[1]
    part.isr, part.elr = (1,), (2,)
    (facts,) = shell.json("topic", "describe", "t")
    assert facts["partitions"][1] == {
        "partition": 1,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 9,
        "replicas": [0, 1, 2],
        "isr": [1],
        "elr": [2],
        "last_known_elr": [],
        "adding_replicas": [],
        "removing_replicas": [],
        "offline_replicas": [],
        "beginning": 0,
        "end": 0,
        "records": 0,
    }
    _, out, _ = shell("topic", "describe", "t")
    head = out.splitlines()[2].split()
    assert head == [
        *("PARTITION", "LEADER", "LEADER-EPOCH", "PARTITION-EPOCH", "REPLICAS", "ISR", "ELR"),
        *("BEGINNING", "END", "RECORDS"),
    ]
    part.adding = (2,)
    assert "ADDING-REPLICAS" in shell("topic", "describe", "t")[1]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (("--under-replicated",), [1]),
        (("--at-min-isr",), [1]),
        (("--under-min-isr",), [0]),
        (("--unavailable",), [0]),
        (("--under-replicated", "--unavailable"), [0, 1]),
    ],
)
def test_describe_filters(
    shell: CommandLine, fake: FakeCluster, filters: tuple[str, ...], expected: list[int]
) -> None:
    """Of all topics or the named ones; topics without such a partition are left out."""
    fake.create("healthy", configs={"min.insync.replicas": "1"})
    fake.topics["healthy"].partitions[0].replicas = fake.topics["healthy"].partitions[0].isr = (0, 1)
    first, second = fake.topics["t"].partitions
    first.leader, second.isr = -1, (0, 1)
    fake.topics["t"].configs["min.insync.replicas"] = "2"
    (facts,) = shell.json("topic", "describe", *filters)
    assert (facts["topic"], [part["partition"] for part in facts["partitions"]]) == ("t", expected)
    assert shell.json("topic", "describe", "healthy", *filters) == []


def test_exit_codes_of_elections(shell: CommandLine, fake: FakeCluster) -> None:
    """Not needed is no failure; some failures are 4, all 1, an unknown topic 3."""
    part = fake.topics["t"].partitions[1]
    assert shell.json("partition", "elect", "--preferred", "--topic", "t") == [
        {"topic": "t", "partition": 0, "result": "not needed"},
        {"topic": "t", "partition": 1, "result": "elected"},
    ]
    assert part.leader == 0
    code, out, err = shell("partition", "elect", "--preferred", "--all")
    assert (code, out, err) == (0, "", "no partition needs an election\n")
    part.leader, part.isr = 1, (1,)
    code, out, err = shell("partition", "elect", "--preferred", "-t", "t", "-p", "0", "-p", "1")
    assert (code, "t-1" in err, "not needed" in out) == (4, True, True)
    code, out, err = shell("partition", "elect", "--preferred", "--all")
    assert (code, out, "PreferredLeaderNotAvailableError" in err) == (1, "", True)
    assert shell("partition", "elect", "--preferred", "-t", "typo")[0] == 3


def test_unclean_elections_ask_for_confirmation(shell: CommandLine, fake: FakeCluster) -> None:
    """Records may be lost."""
    fake.topics["t"].partitions[0].leader = -1
    assert shell("partition", "elect", "--unclean", "--all")[0] == 1
    assert shell.json("partition", "elect", "--unclean", "--all", "--yes") == [
        {"topic": "t", "partition": 0, "result": "elected"}
    ]


def test_reassignment_from_plan_to_completion(shell: CommandLine, fake: FakeCluster, tmp_path: Path) -> None:
    """Generate, execute with a throttle, list, verify to completion, which ends the throttle; revert."""
    code, out, _ = shell("partition", "reassign", "--generate", "-t", "t", "--nodes", "1,2", "-r", "2")
    assert code == 0
    plan = tmp_path / "plan.json"
    plan.write_text(out)
    assert [part["replicas"] for part in json.loads(out)["partitions"]] == [[1, 2], [2, 1]]
    code, back, err = shell("partition", "reassign", "--execute", str(plan), "--throttle", "1000")
    assert (code, "2 partitions are moving" in err) == (0, True)
    assert [part["replicas"] for part in json.loads(back)["partitions"]] == [[0, 1, 2], [0, 1, 2]]
    (topic, *nodes) = (each.resource.name for each in fake.requests("IncrementalAlterConfigs")[0].resources)
    assert (topic, sorted(nodes)) == ("t", ["0", "1", "2"])
    sending = fake.requests("IncrementalAlterConfigs")[0].resources[0].changes[0]
    assert sending.value == "0:0,0:1,0:2,1:0,1:1,1:2"
    moves = shell.json("partition", "reassign", "--list")
    assert [move["removing_replicas"] for move in moves] == [[0], [0]]
    rows = shell.json("partition", "reassign", "--verify", str(plan), code=1)
    assert [row["state"] for row in rows] == ["moving", "moving"]
    fake.finish_moves()
    rows = shell.json("partition", "reassign", "--verify", str(plan))
    assert [row["state"] for row in rows] == ["done", "done"]
    cleared = fake.requests("IncrementalAlterConfigs")[-1].resources
    assert all(change.operation == 1 for each in cleared for change in each.changes)
    assert shell.json("partition", "reassign", "--verify", back, code=1)[0]["state"] == "differs"


def test_reassignment_is_cancelled(shell: CommandLine, fake: FakeCluster) -> None:
    """A second cancellation is an error."""
    plan = '{"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1]}]}'
    assert shell("partition", "reassign", "--execute", plan)[0] == 0
    assert shell("partition", "reassign", "--cancel", plan)[0] == 0
    code, _, err = shell("partition", "reassign", "--cancel", plan)
    assert (code, "NoReassignmentInProgressError" in err) == (1, True)


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ("no-such-file", 3),
        ('{"partitions": 5}', 2),
        ('{"partitions": [{"topic": "typo", "partition": 0, "replicas": [1]}]}', 3),
        ('{"partitions": [{"topic": "t", "partition": 7, "replicas": [1]}]}', 2),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [77]}]}', 1),
    ],
)
def test_invalid_plans_are_errors(shell: CommandLine, plan: str, code: int) -> None:
    """One line names the cause; no result is printed."""
    found, out, err = shell("partition", "reassign", "--execute", plan)
    assert (found, out) == (code, "")
    assert err.startswith("headrace: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe"),
        ("partition", "elect", "--all"),
        ("partition", "elect", "--preferred"),
        ("partition", "elect", "--preferred", "--all", "-t", "t"),
        ("partition", "elect", "--preferred", "-p", "1"),
        ("partition", "reassign"),
        ("partition", "reassign", "--list", "--generate"),
        ("partition", "reassign", "--list", "--cancel", "{}"),
        ("partition", "reassign", "--generate"),
        ("partition", "reassign", "--generate", "-t", "t", "--nodes", "x"),
        ("partition", "reassign", "--generate", "-t", "t", "--nodes", "7"),
        ("partition", "reassign", "--generate", "-t", "t", "-r", "9"),
        ("partition", "reassign", "--list", "-t", "t"),
        ("partition", "reassign", "--list", "--throttle", "5"),
        ("node", "drain", "x"),
        ("node", "drain", "1", "--wait", "--cancel"),
    ],
)
def test_usage_errors_of_replication_commands(shell: CommandLine, arguments: tuple[str, ...]) -> None:
    """On standard error."""
    code, out, err = shell(*arguments)
    assert (code, out) == (2, "")
    assert err


def test_fenced_nodes_are_listed(shell: CommandLine, fake: FakeCluster) -> None:
    """With state, rack, leaders and replicas."""
    fake.racks[0] = "r1"
    fake.drained.add(1)
    fake.stop_node(2)
    assert shell.json("node", "list") == [
        {
            "node_id": 0,
            "endpoint": "node0:9000",
            "rack": "r1",
            "state": "active",
            "leaders": 1,
            "partitions": 2,
        },
        {
            "node_id": 1,
            "endpoint": "node1:9001",
            "rack": None,
            "state": "shutting_down",
            "leaders": 1,
            "partitions": 2,
        },
        {
            "node_id": 2,
            "endpoint": "node2:9002",
            "rack": None,
            "state": "fenced",
            "leaders": 0,
            "partitions": 2,
        },
    ]
    assert shell("node", "list")[1].splitlines()[0].split() == [
        *("NODE-ID", "ENDPOINT", "RACK", "STATE", "LEADERS", "PARTITIONS")
    ]


def test_node_is_drained(shell: CommandLine, fake: FakeCluster) -> None:
    """Partitions that it must keep are reported and waited for; the drain is cancelled."""
    part = fake.topics["t"].partitions[1]
    part.isr = (1,)
    code, out, err = shell("node", "drain", "1", "-o", "json")
    assert json.loads(out) == {"node_id": 1, "state": "draining", "leaders_left": 1, "below_min_isr": 0}
    assert (code, "1 partitions" in err) == (0, True)
    assert shell("node", "drain", "1", "--wait", "--timeout", "0")[0] == 1

    drains: list[Ask] = []

    def rejoin(ask: Ask) -> None:
        """Another replica is in sync at the third request."""
        if ask.api == "DrainNode":
            drains.append(ask)
            part.isr = (1, 2) if len(drains) > 2 else (1,)

    fake.rules.append(rejoin)
    assert shell.json("node", "drain", "1", "--wait") == {
        "node_id": 1,
        "state": "drained",
        "leaders_left": 0,
        "below_min_isr": 0,
    }
    assert (part.leader, len(drains)) == (2, 3)
    fake.rules.clear()
    fake.below_min_isr = ("orders", "t")
    code, _, err = shell("node", "drain", "1")
    assert code == 0
    assert "warning: 2 partitions are below min.insync.replicas" in err
    assert "orders, t. `headrace node drain 1 --cancel`" in err
    assert shell.json("node", "drain", "1", "--cancel")["state"] == "active"
    assert shell("node", "drain", "9")[0] == 3


def test_unregister_asks_for_confirmation(shell: CommandLine, fake: FakeCluster) -> None:
    """Only a node that is down can be unregistered."""
    assert shell("node", "unregister", "2")[0] == 1
    assert shell("node", "unregister", "2", "--yes")[0] == 1
    fake.stop_node(2)
    assert shell("node", "unregister", "2", "--yes")[0] == 0
    assert shell("node", "unregister", "2", "--yes")[0] == 3


def test_records_are_deleted(shell: CommandLine, fake: FakeCluster, tmp_path: Path) -> None:
    """Of some partitions, of all, by a file; the new start offsets are printed. It asks for confirmation."""
    for partition in (0, 1):
        fake.put("t", partition, b"1", b"2", b"3")
    assert shell("topic", "delete-records", "t", "--offset", "end")[0] == 1
    rows = shell.json("topic", "delete-records", "t", "-p", "1", "--offset", "2", "--yes")
    assert rows == [{"topic": "t", "partition": 1, "low_watermark": 2}]
    rows = shell.json("topic", "delete-records", "t", "--offset", "end", "--yes")
    assert [row["low_watermark"] for row in rows] == [3, 3]
    file = tmp_path / "offsets.json"
    entries = [{"topic": "t", "partition": n, "offset": offset} for n, offset in ((0, -1), (1, 4))]
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    code, out, err = shell("topic", "delete-records", "--offset-json-file", str(file), "--yes")
    assert (code, out.splitlines()[1].split(), "t-1" in err) == (4, ["t", "0", "3"], True)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ((), 2, "give NAME"),
        (("t",), 2, "give NAME"),
        (("t", "--offset", "5"), 2, "a numeric --offset needs --partition"),
        (("t", "-p", "0", "--offset", "-5"), 2, "must be a number or end"),
        (("t", "-p", "0", "--offset", "9" * 19), 2, "must be a number or end"),
        (("t", "-p", "0", "--offset", "end", "--offset-json-file", "FILE"), 2, "excludes --partition"),
        (("other", "--offset-json-file", "FILE"), 2, "names topic 't'"),
        (("--offset-json-file", "NONSENSE"), 2, "can't decode"),
        (("--offset-json-file", "OTHER"), 2, "is not JSON like"),
        (("typo", "--offset", "end"), 3, "typo"),
        (("t", "-p", "0", "--offset", "9", "--yes"), 1, "it ends before"),
    ],
)
def test_invalid_deletions_are_errors(
    shell: CommandLine, tmp_path: Path, arguments: tuple[str, ...], code: int, word: str
) -> None:
    """Wrong usage, invalid files, unknown partitions and offsets."""
    file, nonsense = tmp_path / "offsets.json", tmp_path / "nonsense.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    nonsense.write_bytes(b"\xff\x00")
    other = tmp_path / "other.json"
    other.write_text("{}")
    paths = {"FILE": str(file), "NONSENSE": str(nonsense), "OTHER": str(other)}
    found, _, err = shell("topic", "delete-records", *(paths.get(each, each) for each in arguments))
    assert (found, word in err) == (code, True), err
