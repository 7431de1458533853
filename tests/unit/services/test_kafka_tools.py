"""The table of Kafka's tools: every command line is one of the real commands, every tool has its rows."""

from pathlib import Path

import click
import pytest
from command_line import CommandLine, parse_command
from headrace.services.kafka_tools import ToolRow, table

# bin/ of Apache Kafka 4.3.
TOOLS = {
    *("kafka-topics", "kafka-configs", "kafka-console-producer", "kafka-console-consumer"),
    *("kafka-console-share-consumer", "kafka-consumer-groups", "kafka-groups", "kafka-share-groups"),
    *("kafka-streams-groups", "kafka-acls", "kafka-delegation-tokens", "kafka-reassign-partitions"),
    *("kafka-leader-election", "kafka-log-dirs", "kafka-get-offsets", "kafka-delete-records"),
    *("kafka-dump-log", "kafka-transactions", "kafka-features", "kafka-metadata-quorum"),
    *("kafka-metadata-shell", "kafka-storage", "kafka-cluster", "kafka-broker-api-versions"),
    *("kafka-client-metrics", "kafka-producer-perf-test", "kafka-consumer-perf-test"),
    *("kafka-share-consumer-perf-test", "kafka-e2e-latency", "kafka-verifiable-producer"),
    *("kafka-verifiable-consumer", "kafka-verifiable-share-consumer", "kafka-replica-verification"),
    *("kafka-streams-application-reset", "kafka-jmx", "kafka-server-start", "kafka-server-stop"),
    *("kafka-run-class", "connect-standalone", "connect-distributed", "connect-mirror-maker"),
    *("connect-plugin-path", "trogdor"),
}
# Files and folders that command lines of the table name: they have to exist to be parsed.
FILES = (
    "server.properties",
    "plan.json",
    "places.json",
    "offsets.json",
    "offsets.csv",
    "payload.txt",
    "topic.properties",
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder has what the table names."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).write_text("{}")
    Path("data").mkdir()


def test_every_tool_of_kafka_is_in_the_table() -> None:
    assert {row.tool for row in table()} == TOOLS


def test_rows_without_a_command_give_a_reason() -> None:
    assert [row for row in table() if row.is_absent and not row.remark] == []


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("row", [row for row in table() if row.command], ids=lambda row: row.command)
def test_commands_of_the_table_exist_with_their_options(row: ToolRow) -> None:
    parse_command(row.command)


@pytest.mark.parametrize("command", ["headrace topic erase x", "headrace topic list --colour"])
def test_wrong_command_lines_are_found(command: str) -> None:
    """The check above can fail."""
    with pytest.raises((AssertionError, click.UsageError)):
        parse_command(command)


def test_command_prints_the_rows_of_one_tool(command_line: CommandLine) -> None:
    """Also by the name of its script; the whole table has a line for each tool."""
    code, out, _ = command_line("kafka-tools", "bin/kafka-delete-records.sh")
    assert code == 0
    assert out.splitlines()[1].split("  ")[-1] == (
        "headrace topic delete-records --offset-json-file offsets.json --yes"
    )
    assert len(command_line("kafka-tools")[1].splitlines()) == len(TOOLS) + 1
    rows = command_line.json("kafka-tools")
    assert len(rows) == len(table())
    assert {row["kafka"]: row["command"] for row in rows}["kafka-topics.sh --list"] == (
        "headrace topic list --internal"
    )


def test_unknown_tool_is_not_found(command_line: CommandLine) -> None:
    code, _, err = command_line("kafka-tools", "kafka-topic")
    assert code == 3
    assert "did you mean kafka-topics?" in err
