"""Kafka's own command line tools: scripts of them, as data, and a Kafka Streams application.

In arguments `{topic}` is the scenario's own name.
"""

import json
import re
from functools import partial
from typing import Any, NamedTuple

from headrace.benchmarks.servers.kafka_io import run_tool

from ..java_io import Printed
from ..scene import Scene, scenario

CLIENT = "java tools"
TOOLS = "org.apache.kafka.tools"
TOPICS, CONFIGS = f"{TOOLS}.TopicCommand", "kafka.admin.ConfigCommand"
USER = "--entity-type users --entity-name {topic}"
PRODUCER, CONSUMER = f"{TOOLS}.ConsoleProducer", f"{TOOLS}.consumer.ConsoleConsumer"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
WAIT = "--timeout-ms 15000 --max-messages"
READ = f"--topic {{topic}} --group {{topic}} --from-beginning {WAIT}"
PRINT = tuple(f"--property print.{name}=true" for name in ("key", "offset", "partition", "headers"))
WRITE = "--topic {topic} --sync --timeout 0"


class Call(NamedTuple):
    """One tool: what its result is noted as, its class, its arguments without the bootstrap address."""

    label: str
    tool: str
    arguments: tuple[str, ...]
    given: str = ""
    awaits: str = ""  # asked again until this is printed: a broker learns of its controller's records later


def call(label: str, tool: str, arguments: str, given: str = "", awaits: str = "") -> Call:
    return Call(label, tool, tuple(arguments.split()), given, awaits)


MAKE = call("made", TOPICS, "--create --topic {topic} --partitions 1 --replication-factor 1")
FILL = call("filled", PRODUCER, WRITE, "".join(f"line {number}\n" for number in range(10)))

SCRIPTS: dict[str, list[Call]] = {
    "kafka-topics": [
        call("create", TOPICS, "--create --topic {topic} --partitions 3 --config retention.ms=3600000"),
        call("again", TOPICS, "--create --topic {topic}"),
        call("if not there", TOPICS, "--create --topic {topic} --if-not-exists"),
        call("bad config", TOPICS, "--create --topic {topic}-2 --config retention.ms=long"),
        call("no such config", TOPICS, "--create --topic {topic}-2 --config no.such=1"),
        call("too many replicas", TOPICS, "--create --topic {topic}-2 --replication-factor 3"),
        call("placed", TOPICS, "--create --topic {topic}-placed --replica-assignment 1,1"),
        call("placed badly", TOPICS, "--create --topic {topic}-2 --replica-assignment 7"),
        call("describe", TOPICS, "--describe --topic {topic}"),
        call("alter", TOPICS, "--alter --topic {topic} --partitions 4"),
        call("fewer", TOPICS, "--alter --topic {topic} --partitions 2"),
        call("described again", TOPICS, "--describe --topic {topic}"),
        call("under-replicated", TOPICS, "--describe --under-replicated-partitions"),
        call("unknown", TOPICS, "--describe --topic no-such-topic"),
        call("listed", TOPICS, "--list --topic {topic}.*"),
        call("delete", TOPICS, "--delete --topic {topic}"),
        call("deleted again", TOPICS, "--delete --topic {topic}"),
    ],
    "console producer and consumer": [
        MAKE,
        call(
            "keys",
            PRODUCER,
            f"{WRITE} --property parse.key=true --property parse.headers=true",
            "".join(f"h:{number}\tk{number}\tv{number}\n" for number in range(6)),
        ),
        *(
            call(codec, PRODUCER, f"{WRITE} --compression-codec {codec}", "one\ntwo\n")
            for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        ),
        call(
            "read 0",
            CONSUMER,
            f"--topic {{topic}} --partition 0 --offset earliest {WAIT} 5 {' '.join(PRINT)}",
        ),
        call("read", CONSUMER, f"{READ} 16"),
        call("more", PRODUCER, WRITE, "later\n"),
        call("goes on", CONSUMER, f"{READ} 1"),
        call("new protocol", PRODUCER, WRITE, "by the new protocol\n"),
        call(
            "goes on by the new protocol", CONSUMER, f"--consumer-property group.protocol=consumer {READ} 1"
        ),
    ],
    "kafka-consumer-groups": [
        MAKE,
        FILL,
        call("read", CONSUMER, f"{READ} 10"),
        call("describe", GROUPS, "--describe --group {topic}"),
        call("members", GROUPS, "--describe --group {topic} --members --verbose"),
        call("state", GROUPS, "--describe --group {topic} --state"),
        call("dry run", GROUPS, "--reset-offsets --group {topic} --topic {topic} --to-earliest --dry-run"),
        call("reset", GROUPS, "--reset-offsets --group {topic} --topic {topic} --shift-by -1 --execute"),
        call("by time", GROUPS, "--reset-offsets --group {topic} --all-topics --by-duration PT1H --execute"),
        call(
            "to offset", GROUPS, "--reset-offsets --group {topic} --topic {topic}:0 --to-offset 2 --execute"
        ),
        call(
            "too far", GROUPS, "--reset-offsets --group {topic} --topic {topic}:0 --to-offset 999 --execute"
        ),
        call("describe again", GROUPS, "--describe --group {topic}"),
        call("delete offsets", GROUPS, "--delete-offsets --group {topic} --topic {topic}:0"),
        call("unknown", GROUPS, "--describe --group no-such-group"),
        call("delete", GROUPS, "--delete --group {topic}"),
        call("deleted again", GROUPS, "--delete --group {topic}"),
        call("list", f"{TOOLS}.GroupsCommand", "--list --group-type share"),
    ],
    "kafka-configs": [
        MAKE,
        call("set", CONFIGS, "--alter --topic {topic} --add-config retention.ms=1000,cleanup.policy=compact"),
        call("describe", CONFIGS, "--describe --topic {topic}"),
        call("all", CONFIGS, "--describe --topic {topic} --all"),
        call("remove", CONFIGS, "--alter --topic {topic} --delete-config retention.ms"),
        call("bad", CONFIGS, "--alter --topic {topic} --add-config retention.ms=long"),
        call("no such", CONFIGS, "--alter --topic {topic} --add-config no.such=1"),
        call("unknown topic", CONFIGS, "--alter --topic no-such-topic --add-config retention.ms=1"),
        call("broker", CONFIGS, "--alter --broker 1 --add-config log.cleaner.threads=2"),
        call("all brokers", CONFIGS, "--describe --broker-defaults"),
        call("read only", CONFIGS, "--alter --broker 1 --add-config node.id=2"),
        call("group", CONFIGS, "--alter --group {topic} --add-config consumer.session.timeout.ms=50000"),
        call("describe group", CONFIGS, "--describe --group {topic}"),
        call(
            "client metrics",
            CONFIGS,
            "--alter --client-metrics {topic} --add-config interval.ms=5000,metrics=*",
        ),
        call("describe client metrics", CONFIGS, "--describe --client-metrics {topic}"),
        call("describe broker", CONFIGS, "--describe --broker 1", awaits="threads=2 "),
        call("broker back", CONFIGS, "--alter --broker 1 --delete-config log.cleaner.threads"),
        call(
            "quota",
            CONFIGS,
            "--alter --entity-type clients --entity-name c --add-config producer_byte_rate=9999999",
        ),
        call("describe quota", CONFIGS, "--describe --entity-type clients --entity-name c", awaits="rate="),
    ],
    "kafka-configs of users": [
        call("sha 256", CONFIGS, f"--alter {USER} --add-config SCRAM-SHA-256=[iterations=8192,password=p]"),
        # Kafka names two mechanisms in no fixed order
        call("describe", CONFIGS, f"--describe {USER}", awaits="SHA-256"),
        call("sha 512", CONFIGS, f"--alter {USER} --add-config SCRAM-SHA-512=[password=p]"),
        call("few", CONFIGS, f"--alter {USER} --add-config SCRAM-SHA-512=[iterations=4095,password=p]"),
        call("many", CONFIGS, f"--alter {USER} --add-config SCRAM-SHA-512=[iterations=16385,password=p]"),
        call("delete", CONFIGS, f"--alter {USER} --delete-config SCRAM-SHA-256"),
        call("deleted again", CONFIGS, f"--alter {USER} --delete-config SCRAM-SHA-256"),
        call("described again", CONFIGS, f"--describe {USER}"),
    ],
    "kafka-acls without an authorizer": [
        call("add", f"{TOOLS}.AclCommand", "--add --allow-principal User:a --operation Read --topic t"),
        call("list", f"{TOOLS}.AclCommand", "--list"),
        call("remove", f"{TOOLS}.AclCommand", "--remove --force --topic t"),
    ],
    "offsets and records": [
        MAKE,
        FILL,
        call("latest", f"{TOOLS}.GetOffsetShell", "--topic {topic} --time latest"),
        call("earliest", f"{TOOLS}.GetOffsetShell", "--topic {topic} --time earliest"),
        call("local", f"{TOOLS}.GetOffsetShell", "--topic {topic} --time earliest-local"),
        call("tiered", f"{TOOLS}.GetOffsetShell", "--topic {topic} --time latest-tiered"),
        call("by time", f"{TOOLS}.GetOffsetShell", "--topic {topic} --time 1000"),
        call("unknown", f"{TOOLS}.GetOffsetShell", "--topic no-such-topic"),
        call("log dirs", f"{TOOLS}.LogDirsCommand", "--describe --topic-list {topic}"),
    ],
    "the cluster": [
        call("id", f"{TOOLS}.ClusterTool", "cluster-id"),
        call("endpoints", f"{TOOLS}.ClusterTool", "list-endpoints"),
        call("features", f"{TOOLS}.FeatureCommand", "describe"),
        call("quorum", f"{TOOLS}.MetadataQuorumCommand", "describe --status"),
        call("elect", f"{TOOLS}.LeaderElectionCommand", "--election-type preferred --all-topic-partitions"),
        call("api versions", f"{TOOLS}.BrokerApiVersionsCommand", ""),
    ],
    "kafka-transactions": [
        MAKE,
        call("unknown", f"{TOOLS}.TransactionsCommand", "describe --transactional-id no-such-id"),
        call("producers", f"{TOOLS}.TransactionsCommand", "describe-producers --topic {topic} --partition 0"),
        call("hanging", f"{TOOLS}.TransactionsCommand", "find-hanging --broker-id 1"),
    ],
}
# what a line of a tool holds that is measured, drawn, or in no order
MEASURED = (
    # what an error says in words is its server's affair; which error it is, is not
    (re.compile(r"(\.errors\.\w+Exception): .*"), r"\1: <text>"),
    (re.compile(r"^(Error while executing topic command) : .*"), r"\1: <text>"),
    (re.compile(r"\d+(\.\d+)? (records/sec|MB/sec|ms)"), r"<n> \2"),
    (re.compile(r"^\[?\d{4}-\d\d-\d\d[ T][\d:,.]+\]?"), "<time>"),
    (re.compile(r"\b(FinalizedVersionLevel|SupportedMaxVersion)(.*)Epoch: \d+"), r"\1\2Epoch: <n>"),
    (re.compile(r"^(HighWatermark|MaxFollowerLagTimeMs|LeaderEpoch):\s+\d+"), r"\1: <n>"),
)


def play(scene: Scene, script: list[Call]) -> None:
    for each in script:
        arguments = [part.replace("{topic}", scene.topic) for part in each.arguments]
        where = ["--bootstrap-server", scene.bootstrap]
        # these take the kind of call first
        whole = [*arguments, *where] if each.tool.endswith("ClusterTool") else [*where, *arguments]
        done = scene.until(partial(scene.tool, each.tool, *whole, given=each.given), each.awaits)
        note_printed(scene, each.label, done)


def note_printed(scene: Scene, label: str, done: Printed) -> None:
    scene.note(label, {"status": done.status, "out": lines(done.out), "err": lines(done.err)})


def run(scene: Scene, tool: str, *arguments: str, **more: Any) -> Printed:
    """Run a tool with the address of the system."""
    return scene.tool(tool, "--bootstrap-server", scene.bootstrap, *arguments, **more)


def lines(text: str) -> list[str]:
    found = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    for pattern, name in MEASURED:
        found = [pattern.sub(name, line) for line in found]
    return found


def add_script(title: str, script: list[Call]) -> None:
    scenario(CLIENT, title)(lambda scene: play(scene, script))


for _title, _script in SCRIPTS.items():
    add_script(_title, _script)


@scenario(CLIENT, "deletes records, moves replicas")
def files(scene: Scene) -> None:
    """Tools that take a file."""
    play(scene, [MAKE, FILL])
    part = {"topic": scene.topic, "partition": 0}

    def tool(label: str, name: str, *arguments: str) -> None:
        note_printed(scene, label, run(scene, f"{TOOLS}.{name}", *arguments))

    with scene.file(json.dumps({"partitions": [{**part, "offset": 1}], "version": 1})) as wanted:
        tool("deleted", "DeleteRecordsCommand", "--offset-json-file", wanted)
    with scene.file(json.dumps({"partitions": [{**part, "offset": 999}], "version": 1})) as wanted:
        tool("too far", "DeleteRecordsCommand", "--offset-json-file", wanted)
    moves = {"partitions": [{**part, "replicas": [1], "log_dirs": ["any"]}], "version": 1}
    with scene.file(json.dumps(moves)) as wanted:
        for step in ("--execute", "--verify"):
            arguments = ("--reassignment-json-file", wanted, step)
            tool(f"moved {step}", "reassign.ReassignPartitionsCommand", *arguments)
    moves["partitions"][0]["replicas"] = [7]
    with scene.file(json.dumps(moves)) as wanted:
        arguments = ("--reassignment-json-file", wanted, "--execute")
        tool("moved to nowhere", "reassign.ReassignPartitionsCommand", *arguments)
    tool("moving", "reassign.ReassignPartitionsCommand", "--list")


@scenario(CLIENT, "verifiable and perf tools")
def loads(scene: Scene) -> None:
    """The tools of Kafka's own system tests, and those that measure: counts, not speeds."""
    play(scene, [MAKE])
    where = ("--bootstrap-server", scene.bootstrap, "--topic", scene.topic)
    # in a JVM of its own, since it ends its work in a hook of that
    out = run_tool(f"{TOOLS}.VerifiableProducer", *where, "--max-messages", "1000", "--acks", "-1")
    response = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    scene.note("produced", [each["name"] for each in response if each["name"] != "producer_send_success"])
    scene.note("successes", sum(each["name"] == "producer_send_success" for each in response))
    for protocol in ("classic", "consumer"):
        group = ("--group-id", f"{scene.topic}-{protocol}", "--group-protocol", protocol)
        more = ("--max-messages", "1000", "--reset-policy", "earliest")
        done = scene.tool(f"{TOOLS}.VerifiableConsumer", *where, *group, *more)
        response = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
        read = sum(each["count"] for each in response if each["name"] == "records_consumed")
        scene.note(f"consumed {protocol}", read)
        committed = [each for each in response if each["name"] == "offsets_committed"]
        scene.note(f"committed {protocol}", committed[-1]["offsets"] if committed else None)
    speed = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    props = ("--producer-props", f"bootstrap.servers={scene.bootstrap}", "acks=all")
    for more in ((), ("--transaction-duration-ms", "50")):
        done = scene.tool(f"{TOOLS}.ProducerPerformance", "--topic", scene.topic, *speed, *props, *more)
        last = (lines(done.out) or [""])[-1]
        scene.note(f"perf {more}", [done.status, last.split(",")[0], done.err])
    for protocol in ("classic", "consumer"):
        with scene.file(f"group.protocol={protocol}\n") as config:
            more = ("--messages", "30000", "--consumer.config", config, "--timeout", "20000")
            done = scene.tool(f"{TOOLS}.ConsumerPerformance", *where, *more)
        read = (lines(done.out) or [""])[-1].split(", ")
        enough = len(read) > 4 and float(read[4]) >= 30_000
        scene.note(f"perf reads by {protocol}", [done.status, enough, done.err])
    done = scene.tool(
        f"{TOOLS}.EndToEndLatency", scene.bootstrap, f"{scene.topic}-latency", "200", "all", "100"
    )
    scene.note("latency", [done.status, done.err, "Percentiles" in done.out])


@scenario(CLIENT, "Kafka's own check of what a broker can do")
def compatibility(scene: Scene) -> None:
    supported = (
        "offsets-for-times",
        "cluster-id",
        "create-topics",
        "describe-configs",
        "idempotent-producer",
    )
    play(scene, [MAKE])
    where = ("--bootstrap-server", scene.bootstrap, "--topic", scene.topic)
    passes = {}
    for has_acls in ("True", "False"):
        flags = ["--num-cluster-nodes", "1", "--expect-record-too-large-exception", "False"]
        flags += ["--describe-acls-supported", has_acls]
        for name in supported:
            flags += [f"--{name}-supported", "True"]
        run(scene, TOPICS, "--delete", "--if-exists", "--topic", "newtopic")  # the check makes it
        done = scene.tool(f"{TOOLS}.ClientCompatibilityTest", *where, *flags)
        passes[has_acls] = done.status == 0 and "SUCCESS." in done.out
    scene.note("passes", any(passes.values()))
    scene.note("passes with ACLs", passes["True"])


@scenario("kafka streams", "counts words, at least once and exactly once")
def word_count(scene: Scene) -> None:
    text = "the log is the thing\nthe log and nothing but the log\n" * 5
    for guarantee in ("at_least_once", "exactly_once_v2"):
        name = f"{scene.topic}-{guarantee.replace('_', '-')}"
        for topic in (f"{name}-in", f"{name}-out"):
            run(scene, TOPICS, "--create", "--topic", topic, "--partitions", "1")
        run(scene, PRODUCER, "--topic", f"{name}-in", "--sync", given=text)
        with scene.folder() as state:
            arguments = (scene.bootstrap, name, guarantee, f"{name}-in", f"{name}-out", state, "60")
            done = scene.tool("CountWords", *arguments, timeout_s=90)
        scene.note(f"{guarantee} ended", [done.status, done.out, done.err])
        reading = f"--topic {name}-out --isolation-level read_committed --from-beginning {WAIT} 60 {PRINT[0]}"
        found = run(scene, CONSUMER, *reading.split())
        scene.note(f"{guarantee} counted", found.out.splitlines())
        listed = run(scene, TOPICS, "--list", "--topic", f"{name}.*")
        scene.note(f"{guarantee} topics", listed.out.splitlines())
        described = run(scene, GROUPS, "--describe", "--group", name)
        # how many transactions end in the other topic is a matter of time
        scene.note(f"{guarantee} group", [line for line in lines(described.out) if f"{name}-in " in line])
