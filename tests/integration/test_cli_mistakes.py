"""Mistakes of new users, against a cluster in this process: one clear message each, and what to do."""

import shlex
from collections.abc import Iterator

import headrace
import pytest
from command_line import CommandLine
from headrace.services.local_io import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node with the topic orders, which has one partition and one record."""
    with headrace.local() as running:
        running.admin().create_topics(headrace.NewTopic("orders")).raise_for_errors()
        running.producer().send("orders", b"one").result(timeout=60)
        yield running


@pytest.mark.parametrize(
    ("line", "code", "response"),
    [
        ("topic describe", 2, "name a topic, or give --all, or a filter such as"),
        ("topic create orders", 1, "hint: `headrace topic describe NAME` shows the existing topic"),
        ("topic create other -r 9", 1, "hint: `headrace node list` lists the nodes; `headrace up --nodes N`"),
        ("topic describe --topic orders", 2, "hint: topics are arguments"),
        ("topic create t --bootstrap-server h:1", 2, "hint: -b HOST:PORT"),
        ("consume orders --from-beginning", 2, "hint: `consume` starts at the beginning"),
        ("consume orders -e -X group.id=g", 2, "name the group with -g"),
        ("node drain 9", 3, "hint: `headrace node list`"),
        ("log dirs -t nowhere", 3, "topic 'nowhere' has no replica on any node"),
        ("log dirs -t orders -t nowhere --node 1", 3, "topic 'nowhere' has no replica on nodes 1"),
        ("log dirs --node 9", 3, "node 9 is not registered"),
        ("partition move-dir /x --node 1 -t orders -p 0", 1, "hint: `headrace log dirs`"),
        ("partition reassign --execute '{}'", 2, "'partitions' is missing"),
        ("partition reassign --execute '{'", 2, "Expecting property name"),
        ("quorum remove-voter 7", 3, "hint: `headrace quorum status`"),
        ("quota alter --set producer_byte_rate=1", 2, "--user, --client or --ip with a name"),
        ("client-metrics describe --name nope", 3, "`headrace client-metrics list`"),
        ("txn describe nope", 3, "'nope'"),
    ],
)
def test_error_messages_name_the_remedy(shell: CommandLine, line: str, code: int, response: str) -> None:
    """Exit code, message on standard error, and nothing on standard output."""
    found, out, err = shell(*shlex.split(line))
    assert (found, out) == (code, "")
    assert response in err


def test_consume_commits_no_offsets(
    cluster: LocalCluster, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group of the environment is for programs: `consume` leaves it unchanged."""
    monkeypatch.setenv("HEADRACE_GROUP_ID", "billing")
    assert shell("consume", "orders", "-e")[:2] == (0, "one\n")
    assert cluster.admin().list_groups() == []
