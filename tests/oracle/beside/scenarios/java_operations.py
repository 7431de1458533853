"""Kafka's own command line tools for operators: ways to reset a group, offsets, transactions, the quorum."""

from ..asking import Asking
from ..scene import Scene, scenario
from .java_tools import (
    CLIENT,
    CONFIGS,
    CONSUMER,
    FILL,
    GROUPS,
    MAKE,
    READ,
    TOOLS,
    TOPICS,
    WAIT,
    Call,
    add_script,
    call,
    play,
    run,
)
from .raw_transactions import Txn

OFFSETS, TRANSACTIONS = f"{TOOLS}.GetOffsetShell", f"{TOOLS}.TransactionsCommand"
QUORUM, RESET = f"{TOOLS}.MetadataQuorumCommand", f"{TOOLS}.StreamsResetter"
RESET_GROUP = "--reset-offsets --group {topic} --topic {topic}"

SCRIPTS: dict[str, list[Call]] = {
    "every way to reset a group": [
        MAKE,
        FILL,
        call("read", CONSUMER, f"{READ} 7"),
        *(
            call(way, GROUPS, f"{RESET_GROUP} {way} --execute")
            for way in (
                "--to-current",
                "--to-earliest",
                "--to-latest",
                "--to-offset 4",
                "--shift-by 2",
                "--shift-by -100",
                "--shift-by 100",
                "--by-duration P1D",
                "--by-duration PT0S",
                "--to-datetime 2020-01-01T00:00:00.000",
                "--to-datetime 2099-01-01T00:00:00.000",
            )
        ),
        call("two ways", GROUPS, f"{RESET_GROUP} --to-latest --to-earliest --execute"),
        call("neither", GROUPS, f"{RESET_GROUP} --to-latest"),
        call("export", GROUPS, f"{RESET_GROUP} --to-offset 3 --export"),
        call(
            "of a new group",
            GROUPS,
            "--reset-offsets --group {topic}-2 --topic {topic} --to-offset 5 --execute",
        ),
        call("described", GROUPS, "--describe --group {topic} --group {topic}-2 --offsets"),
        call("verbose", GROUPS, "--describe --group {topic}-2 --members --verbose"),
        call(
            "delete offsets", GROUPS, "--delete-offsets --group {topic} --topic {topic} --topic no-such-topic"
        ),
        call("delete more", GROUPS, "--delete-offsets --group no-such-group --topic {topic}"),
        call("delete both", GROUPS, "--delete --group {topic} --group {topic}-2 --group no-such-group"),
    ],
    "offsets of partitions": [
        call("made", TOPICS, "--create --topic {topic} --partitions 3 --replication-factor 1"),
        call("of some", OFFSETS, "--topic {topic} --partitions 0,2"),
        call("of named ones", OFFSETS, "--topic-partitions {topic}:1-3"),
        call("without internal ones", OFFSETS, "--topic-partitions {topic} --exclude-internal-topics"),
        call("largest time", OFFSETS, "--topic {topic} --time max-timestamp"),
        call("no number", OFFSETS, "--topic {topic} --time soon"),
        call("no partition", OFFSETS, "--topic-partitions {topic}:9"),
    ],
    "configs of nodes and groups": [
        call(
            "default", CONFIGS, "--alter --broker-defaults --add-config log.cleaner.io.buffer.load.factor=0.8"
        ),
        call("back", CONFIGS, "--alter --broker-defaults --delete-config log.cleaner.io.buffer.load.factor"),
        call("no such key", CONFIGS, "--alter --broker-defaults --delete-config log.cleaner.threads"),
        call("bad value", CONFIGS, "--alter --broker 1 --add-config log.cleaner.threads=none"),
        call("group", CONFIGS, "--alter --group {topic} --add-config consumer.heartbeat.interval.ms=6000"),
        call(
            "group, too long", CONFIGS, "--alter --group {topic} --add-config consumer.session.timeout.ms=1"
        ),
        call("group, no such key", CONFIGS, "--alter --group {topic} --add-config no.such=1"),
        call("group back", CONFIGS, "--alter --group {topic} --delete-config consumer.heartbeat.interval.ms"),
    ],
    "a Streams application is reset": [
        MAKE,
        FILL,
        call("read", CONSUMER, f"--topic {{topic}} --group {{topic}}-app --from-beginning {WAIT} 7"),
        call("changelog", TOPICS, "--create --topic {topic}-app-store-changelog --partitions 1"),
        call("dry run", RESET, "--application-id {topic}-app --input-topics {topic} --dry-run"),
        call("reset", RESET, "--application-id {topic}-app --input-topics {topic} --force"),
        call("by", RESET, "--application-id {topic}-app --input-topics {topic} --to-offset 4 --force"),
        call("of no topic", RESET, "--application-id {topic}-app --input-topics no-such-topic --force"),
        call("described", GROUPS, "--describe --group {topic}-app"),
        call("left", TOPICS, "--list --topic {topic}.*"),
    ],
}

for _title, _script in SCRIPTS.items():
    add_script(_title, _script)


@scenario(CLIENT, "hanging transactions")
def hanging(scene: Scene) -> None:
    """Listed, described, aborted by their place in the log."""
    play(scene, [MAKE])
    with Asking(scene) as asking:
        txn = Txn(asking, scene.topic)
        txn.init("", 5)
        txn.produce("", 0)
        printed = {
            "listed": run(scene, TRANSACTIONS, "list"),
            "described": run(scene, TRANSACTIONS, "describe", "--transactional-id", scene.topic),
        }
        for label, done in printed.items():  # without times and ids
            rows = [line.split() for line in done.out.splitlines()]
            scene.note(label, [done.status, done.err, [row[-1] for row in rows if scene.topic in row]])
        play(
            scene,
            [
                call("find all", TRANSACTIONS, "find-hanging"),
                call("find here", TRANSACTIONS, "find-hanging --topic {topic} --partition 0"),
                call("abort nothing", TRANSACTIONS, "abort --topic {topic} --partition 0 --start-offset 7"),
                call("abort", TRANSACTIONS, "abort --topic {topic} --partition 0 --start-offset 0"),
                call("abort again", TRANSACTIONS, "abort --topic {topic} --partition 0 --start-offset 0"),
            ],
        )
        txn.end("ended", 5, committed=False)
        txn.until("CompleteAbort")  # nothing was open any more: this waits for the coordinator's own marker
        asking.all_committed("committed")


@scenario(CLIENT, "the quorum")
def quorum(scene: Scene) -> None:
    """What stays the same of what kafka-metadata-quorum prints."""
    for label, more in (("status", "--status"), ("replicas", "--replication")):
        done = run(scene, QUORUM, "describe", more)
        words = [line.split()[0] for line in done.out.splitlines() if line.strip()]
        scene.note(label, [done.status, words, done.err])
