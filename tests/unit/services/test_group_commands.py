"""`headrace group` and `headrace txn` over a fake cluster: output, exit codes."""

from pathlib import Path

import pytest
from command_line import CommandLine
from fake_admin_cluster import FakeAdminCluster
from headrace.protocol.consumer_protocol import Assignment, encode_assignment
from headrace.protocol.model import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
LONG_AGO_MS = 1_000_000


@pytest.fixture
def fake() -> FakeAdminCluster:
    """Topic t: partition 0 with three records at 1000, 2000 and 3000, partition 1 with none. Group g has
    committed 1 in partition 0."""
    fake = FakeAdminCluster(2, latency_ms=0)
    fake.create("t", 2)
    for number in (1, 2, 3):
        fake.put("t", 0, b"v", timestamp=1000 * number)
    fake.commit("g", "t", 0, 1)
    return fake


def join(fake: FakeAdminCluster) -> None:
    """Group g has one member, which has both partitions."""
    fake.group("g").join("m-1", "one", encode_assignment(Assignment(3, (FIRST, SECOND))))


def test_groups_are_listed_by_state_and_type(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """An unknown state is wrong usage."""
    fake.group("other").state = "Stable"
    assert [row["group"] for row in shell.json("group", "list")] == ["g", "other"]
    (row,) = shell.json("group", "list", "--state", "stable", "--type", "classic")
    assert row == {"group": "other", "type": "classic", "state": "Stable", "protocol": "consumer"}
    assert shell("group", "list")[1].splitlines()[0].split() == ["GROUP", "TYPE", "STATE", "PROTOCOL"]
    code, _, err = shell("group", "list", "--state", "idle")
    assert (code, "'idle' is none of Empty" in err) == (2, True)


def test_describe_shows_lag_and_members(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """Also partitions that a member owns and that have no committed offset."""
    join(fake)
    (facts,) = shell.json("group", "describe", "g")
    member = {"member": "m-1", "instance": "one", "client": "client", "host": "host"}
    assert facts == {
        "group": "g",
        "type": "classic",
        "state": "Stable",
        "assignor": "range",
        "coordinator": 0,
        "members": 1,
        "lag": 2,
        "seconds": 8.0,
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "committed": 1,
                "start": 0,
                "end": 3,
                "lag": 2,
                "seconds": 8.0,
                "error": None,
                **member,
            },
            {
                "topic": "t",
                "partition": 1,
                "committed": None,
                "start": 0,
                "end": 0,
                "lag": None,
                "seconds": None,
                "error": None,
                **member,
            },
        ],
    }
    _, out, _ = shell("group", "describe", "--all")
    lines = [line.split() for line in out.splitlines()]
    assert ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "SECONDS", "MEMBER", "CLIENT", "HOST"] in lines
    assert ["t", "0", "1", "3", "2", "8.0", "s", "m-1", "client", "host"] in lines
    shell.json("group", "describe", "g", "--isolation", "read_uncommitted")
    assert fake.requests("CountRecords")[0].isolation == 1
    assert fake.requests("CountRecords")[-1].isolation == 0


def test_members_are_listed_with_their_partitions(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """In the form that --topic accepts."""
    assert shell.json("group", "members", "g") == []
    assert shell("group", "members", "g")[2] == "no members\n"
    join(fake)
    (row,) = shell.json("group", "members", "g")
    assert (row["member"], row["partitions"], row["assignment"]) == ("m-1", 2, ["t:0,1"])
    assert "t:0,1" in shell("group", "members", "--all")[1]


def test_exit_codes_of_group_commands(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """Not found is 3, partial failure 4, usage 2; one line, and a hint."""
    code, out, err = shell("group", "describe", "nowhere")
    assert (code, out) == (3, "")
    assert "GroupIdNotFoundError" in err
    assert "headrace group list" in err
    assert shell("group", "describe", "g", "nowhere")[0] == 4
    assert shell("group", "describe")[0] == 2
    assert shell("group", "members", "g", "--all")[0] == 2
    join(fake)
    code, _, err = shell("group", "delete", "g", "--yes")
    assert (code, "NonEmptyGroupError" in err, "group members" in err) == (1, True, True)


@pytest.mark.parametrize(
    ("rule", "new"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 3),
        (("--to-current",), 1),
        (("--to-offset", "2"), 2),
        (("--to-offset", "99"), 3),
        (("--shift-by", "-1"), 0),
        (("--shift-by", "1"), 2),
        (("--to-datetime", "1970-01-01T00:00:01.500"), 1),
        (("--by-duration", "P99999D"), 0),
        (("--by-duration", "PT0S"), 3),
    ],
)
def test_reset_by_every_rule(
    shell: CommandLine, fake: FakeAdminCluster, rule: tuple[str, ...], new: int
) -> None:
    """A dry run first, then with --execute."""
    row = {"group": "g", "topic": "t", "partition": 0, "old": 1, "new": new}
    place = ("--topic", "t:0")
    assert shell.json("group", "reset", "g", *place, *rule) == [row]
    assert not fake.requests("OffsetCommit")
    assert "--execute commits the new ones" in shell("group", "reset", "g", *place, *rule)[2]
    assert shell.json("group", "reset", "g", *place, *rule, "--execute") == [row]
    assert fake.group("g").offsets["t", 0].offset == new


def test_reset_scopes_and_files(shell: CommandLine, fake: FakeAdminCluster, tmp_path: Path) -> None:
    """A whole topic, all topics with committed offsets, and an exported file."""
    rows = shell.json("group", "reset", "g", "--topic", "t", "--to-latest")
    assert [(row["partition"], row["old"], row["new"]) for row in rows] == [(0, 1, 3), (1, None, 0)]
    rows = shell.json("group", "reset", "g", "--all-topics", "--to-latest")
    assert [row["partition"] for row in rows] == [0]
    code, out, _ = shell("group", "reset", "g", "--topic", "t", "--to-current", "--export")
    assert (code, out) == (0, "t,0,1\nt,1,0\n")
    file = tmp_path / "offsets.csv"
    file.write_text(out)
    assert shell("group", "reset", "g", "--topic", "t", "--to-latest", "--execute")[0] == 0
    rows = shell.json("group", "reset", "g", "--from-file", str(file), "--execute")
    assert [(row["old"], row["new"]) for row in rows] == [(3, 1), (0, 0)]
    rows = shell.json("group", "reset", "new", "--topic", "t:1", "--to-latest", "--execute", "--new-group")
    assert rows == [{"group": "new", "topic": "t", "partition": 1, "old": None, "new": 0}]


def test_invalid_resets_are_errors(shell: CommandLine, fake: FakeAdminCluster, tmp_path: Path) -> None:
    """A group with members, no rule or two, no scope or two, unknown topics and files."""
    some = ("--topic", "t")
    for usage in ((), some, ("--to-latest",), (*some, "--to-latest", "--to-earliest")):
        assert shell("group", "reset", "g", *usage)[0] == 2
    assert shell("group", "reset", "g", *some, "--all-topics", "--to-latest")[0] == 2
    for bad in (("--to-datetime", "noon"), ("--by-duration", "1h"), ("--from-file", str(tmp_path / "no"))):
        scope = () if "--from-file" in bad else some
        assert shell("group", "reset", "g", *scope, *bad)[0] == 2
    assert shell("group", "reset", "nowhere", "--all-topics", "--to-latest", "--new-group")[0] == 2
    for execute in ((), ("--execute",)):
        code, _, err = shell("group", "reset", "gg", "--topic", "t", "--to-latest", *execute)
        assert (code, "group 'gg' does not exist; did you mean 'g'? --new-group" in err) == (3, True)
    assert shell("group", "reset", "g", "--topic", "typo", "--to-latest")[0] == 3
    assert shell("group", "reset", "g", "--topic", "t:1", "--shift-by", "1")[0] == 2
    join(fake)
    code, out, err = shell("group", "reset", "g", *some, "--to-latest", "--execute")
    assert (code, out) == (1, "")
    assert "group 'g' is Stable and has 1 members: stop them first [NonEmptyGroupError]" in err
    assert fake.group("g").offsets["t", 0].offset == 1


def test_offsets_and_groups_are_deleted(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """Offsets of a topic, then the group."""
    fake.commit("g", "t", 1, 0)
    rows = shell.json("group", "delete-offsets", "g", "--topic", "t:1")
    assert rows == [{"group": "g", "topic": "t", "partition": 1}]
    assert list(fake.group("g").offsets) == [("t", 0)]
    code, _, err = shell("group", "delete", "g", "nowhere", "--yes")
    assert (code, "deleted g" in err) == (4, True)
    assert shell("group", "delete", "g")[0] == 1  # not confirmed
    assert shell("group", "delete-offsets", "g", "--topic", "t")[0] == 3


def test_transactions_and_producers_are_listed(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """List, describe, and producers of a topic."""
    fake.know("a", 7, FIRST, SECOND)
    fake.open_transaction(FIRST, 7, start=2, last_ms=5_000)
    (row,) = shell.json("txn", "list", "--state", "Ongoing", "--longer-than", "PT1S")
    of_prepared = {"prepared": None, "prepared_s": None}
    facts = {"transactional_id": "a", "coordinator": 0, "producer_id": 7, "state": "Ongoing"}
    assert row == {**facts, **of_prepared}
    (row,) = shell.json("txn", "describe", "a")
    assert (row["start"], row["partitions"]) == ("1970-01-01T00:00:05.000+00:00", ["t:0,1"])
    assert "t:0,1" in shell("txn", "describe", "a")[1]
    code, _, err = shell("txn", "describe", "nowhere")
    assert (code, "headrace txn list" in err) == (3, True)
    (row,) = shell.json("txn", "producers", "t", "-p", "0")
    assert (row["producer_id"], row["start_offset"], row["last_sequence"]) == (7, 2, 7)


def test_prepared_transactions_are_listed_and_aborted(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """With their age; not as hanging. The abort asks for confirmation."""
    fake.know("a", 7, FIRST, SECOND, state="Prepared", prepared_ms=LONG_AGO_MS)
    fake.open_transaction(FIRST, 7, start=2, last_ms=LONG_AGO_MS)
    (row,) = shell.json("txn", "list", "--state", "Prepared")
    (described,) = shell.json("txn", "describe", "a")
    assert row["prepared"] == described["prepared"] is not None
    assert row["prepared_s"] > 1_000
    assert shell.json("txn", "find-hanging", "--all") == []
    place = ("-t", "t", "-p", "0", "--start-offset", "2", "--yes")
    code, _, err = shell("txn", "abort", *place)
    assert (code, "'a' is Prepared in this partition" in err, "txn abort-prepared" in err) == (1, True, True)
    assert shell("txn", "abort-prepared", "a")[0] == 1  # not confirmed
    assert shell("txn", "abort-prepared", "a", "nowhere", "--yes")[0] == 4
    assert fake.known["a"].state == "PrepareAbort"
    assert shell("txn", "abort-prepared", "a", "--yes")[0] == 1


def test_hanging_transactions_are_found_and_aborted(shell: CommandLine, fake: FakeAdminCluster) -> None:
    """In every scope; by offset or by ids; not a transaction that its coordinator knows."""
    fake.know("a", 7, FIRST)
    fake.open_transaction(FIRST, 7, start=2, last_ms=LONG_AGO_MS)
    fake.open_transaction(SECOND, 8, start=5, last_ms=LONG_AGO_MS)
    for scope in (("--all",), ("--node", "1"), ("--topic", "t"), ("--topic", "t", "-p", "1")):
        (row,) = shell.json("txn", "find-hanging", *scope)
        assert (row["partition"], row["producer_id"], row["start_offset"]) == (1, 8, 5)
    assert shell.json("txn", "find-hanging", "--node", "0") == []
    assert shell("txn", "find-hanging")[0] == 2
    assert shell("txn", "find-hanging", "--all", "-p", "0")[0] == 2
    place = ("abort", "--topic", "t", "--partition")
    assert shell("txn", *place, "1", "--start-offset", "4", "--yes")[0] == 3
    assert shell("txn", *place, "1", "--yes")[0] == 2
    assert shell("txn", *place, "1", "--start-offset", "5", "--producer-id", "8", "--yes")[0] == 2
    assert shell("txn", *place, "1", "--start-offset", "5")[0] == 1  # not confirmed
    assert not fake.markers
    assert shell("txn", *place, "1", "--start-offset", "5", "--yes")[0] == 0
    by_ids = ("--producer-id", "7", "--producer-epoch", "3", "--coordinator-epoch", "2", "--yes")
    code, _, err = shell("txn", *place, "0", *by_ids)
    assert (code, "not hanging: transactional id 'a' is Ongoing" in err) == (1, True)
    assert shell("txn", *place, "0", *by_ids, "--force")[0] == 0
    assert [(each.producer_id, each.coordinator_epoch) for each in fake.markers] == [(8, 0), (7, 2)]
    assert shell("txn", "find-hanging", "--all")[2] == "no hanging transactions in 2 partitions\n"
    fake.topics["t"].partitions[0].leader = -1
    assert shell("txn", "find-hanging", "--all")[2].splitlines() == [
        "1 partitions have no leader and were not searched",
        "no hanging transactions in 1 partitions",
    ]
