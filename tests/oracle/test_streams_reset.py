"""`headrace stream reset` beside kafka-streams-application-reset, on one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import headrace
import kafka_oracle
import pytest
from beside.java_io import JavaTools
from command_line import CommandLine
from headrace import NewTopic, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.services.local_io import LocalCluster

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RESETTER = "org.apache.kafka.tools.StreamsResetter"
TIME_MS = 1_700_000_000_000
COMMITTED, RECORDS, DELETED = 5, 10, 2
# By rule: the options of both tools; PLAN is a file with an offset for each partition
RULES: dict[str, list[str]] = {
    "beginning": [],
    "earliest": ["--to-earliest"],
    "latest": ["--to-latest"],
    "offset": ["--to-offset", "4"],
    "offset-too-low": ["--to-offset", "0"],
    "forward": ["--shift-by", "2"],
    "backward": ["--shift-by", "-99"],
    "time": ["--to-datetime", "2023-11-14T22:13:20.007"],
    "duration": ["--by-duration", "P1D"],
    "file": ["--from-file", "PLAN"],
}
SUFFIXES = (
    "counts-changelog",
    "counts-repartition",
    "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic",
    "homes-subscription-response-topic",
    "output",
    "changelog-of-changes",
    "input-changelog",  # an input topic with the name of an internal one
)


@pytest.fixture(scope="module")
def cluster(java_tools: JavaTools) -> Iterator[LocalCluster]:
    """A cluster with a listener for Kafka's tool, and a JVM that has loaded Kafka's admin client: the tool
    itself gives each call ten seconds, which a busy machine may need for that."""
    with headrace.local(
        listeners="PLAINTEXT://127.0.0.1:0",
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
    ) as running:
        patient = ("--timeout", "300000")
        java_tools.output(GROUPS, "--bootstrap-server", running.kafka_bootstrap, "--list", *patient)
        yield running


class Application:
    """The topics and the committed offsets of an application that has stopped."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self._cluster, self.name = cluster, name
        self.input = f"{name}-input-changelog"
        with cluster.admin() as admin:
            topics = (NewTopic(f"{name}-{suffix}", 2, configs={"retention.ms": "-1"}) for suffix in SUFFIXES)
            admin.create_topics(*topics).raise_for_errors()
            with cluster.producer() as producer:
                for number in range(2 * RECORDS):
                    producer.send(self.input, b"x", partition=number % 2, timestamp=TIME_MS + number)
            self._places = [TopicPartition(self.input, number) for number in range(2)]
            admin.delete_records(dict.fromkeys(self._places, DELETED)).raise_for_errors()
            committed = dict.fromkeys(self._places, COMMITTED)
            admin.alter_group_offsets(name, committed, create=True).raise_for_errors()

    def options(self, options: list[str], folder: Path) -> list[str]:
        """Options of a rule, with a plan for this application."""
        plan = folder / f"{self.name}.csv"
        plan.write_text("".join(f"{self.input},{number},{8 - number}\n" for number in range(2)))
        return [str(plan) if option == "PLAN" else option for option in options]

    def state(self) -> tuple[list[str], list[tuple[int, str]]]:
        """The topics that are left, without the name; offsets and metadata that are committed."""
        with self._cluster.admin() as admin:
            names = [topic.name for topic in admin.list_topics()]
            found = admin.list_group_offsets(self.name)
        mine = sorted(name.removeprefix(self.name) for name in names if name.startswith(f"{self.name}-"))
        offsets = (found[place] for place in self._places)
        return mine, [(each.offset, each.metadata) for each in offsets if each is not None]


@pytest.mark.parametrize("rule", RULES)
def test_both_tools_leave_the_same_offsets_and_topics(
    cluster: LocalCluster, command_line: CommandLine, java_tools: JavaTools, tmp_path: Path, rule: str
) -> None:
    """The plan of either tool, which is printed first, changes nothing."""
    java, ours = (Application(cluster, f"{rule}-{tool}") for tool in ("java", "ours"))
    before = ours.state()
    where = [
        "--bootstrap-server",
        cluster.kafka_bootstrap,
        "--application-id",
        java.name,
        "--input-topics",
        java.input,
    ]
    java_tools.output(RESETTER, *where, *java.options(RULES[rule], tmp_path))
    shell = command_line.at(cluster.bootstrap)
    command = ["stream", "reset", ours.name, "-t", ours.input, *ours.options(RULES[rule], tmp_path)]
    assert shell(*command)[0] == 0
    assert ours.state() == before
    code, _, err = shell(*command, "--execute")
    assert code == 0, err
    assert ours.state() == java.state()


def test_both_tools_delete_only_the_internal_topics_that_are_named(
    cluster: LocalCluster, command_line: CommandLine, java_tools: JavaTools
) -> None:
    """Without input topics no offset is changed."""
    java, ours = (Application(cluster, f"named-{tool}") for tool in ("java", "ours"))
    chosen = "counts-changelog"
    where = ["--bootstrap-server", cluster.kafka_bootstrap, "--application-id", java.name]
    java_tools.output(RESETTER, *where, "--internal-topics", f"{java.name}-{chosen}")
    shell = command_line.at(cluster.bootstrap)
    command = ["stream", "reset", ours.name, "--internal-topic", f"{ours.name}-{chosen}"]
    assert shell(*command, "--execute")[0] == 0
    assert ours.state() == java.state()


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("{input},0,3\n", "{input}-1 of the input topics is missing"),
        ("{input},0,3\nother,0,1\n", "other-0 is not"),
    ],
)
def test_a_plan_for_other_partitions_is_refused(
    cluster: LocalCluster,
    command_line: CommandLine,
    java_tools: JavaTools,
    tmp_path: Path,
    lines: str,
    text: str,
) -> None:
    """Kafka's tool fails with a NullPointerException; either one changes nothing."""
    tools = [Application(cluster, f"plan-{tool}-{len(lines)}") for tool in ("java", "ours")]
    before = [each.state() for each in tools]
    java, ours = tools
    plans = [tmp_path / "java.csv", tmp_path / "ours.csv"]
    for plan, each in zip(plans, tools, strict=True):
        plan.write_text(lines.format(input=each.input))
    where = [
        "--bootstrap-server",
        cluster.kafka_bootstrap,
        "--application-id",
        java.name,
        "--input-topics",
        java.input,
    ]
    with pytest.raises(kafka_oracle.KafkaError, match="NullPointerException"):
        java_tools.output(RESETTER, *where, "--from-file", str(plans[0]))
    shell = command_line.at(cluster.bootstrap)
    code, _, err = shell(
        "stream", "reset", ours.name, "-t", ours.input, "--from-file", str(plans[1]), "--execute"
    )
    assert code != 0
    assert text.format(input=ours.input) in err
    assert [each.state() for each in tools] == before
