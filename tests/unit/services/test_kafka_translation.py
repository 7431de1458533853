"""Command lines of Kafka's tools, translated: every main option of every tool, and that the result exists."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, commands, parse_command
from headrace.services.kafka_options import OPTIONS
from headrace.services.kafka_tools import table
from headrace.services.kafka_translation import ENTITY_KINDS, TranslationError, translate, uses_of

RESET = (
    "--to-earliest --to-latest --to-current --to-offset --to-datetime --by-duration --shift-by --from-file"
)
# The main options of Kafka 4.3's tools, by tool. Tools whose rows in `headrace kafka-tools` have no command,
# or that have no options, are not here.
MAIN_OPTIONS = {
    "kafka-topics": "--create --delete --alter --describe --list --topic --topic-id --partitions"
    " --replication-factor --replica-assignment --config --under-replicated-partitions"
    " --unavailable-partitions --under-min-isr-partitions --at-min-isr-partitions --topics-with-overrides"
    " --if-exists --if-not-exists --exclude-internal",
    "kafka-configs": "--alter --describe --topics --brokers --broker-loggers --users --clients --ips --groups"
    " --client-metrics --add-config --add-config-file --delete-config --brokers-defaults --users-defaults"
    " --clients-defaults --ips-defaults --all",
    "kafka-console-producer": "--topic --sync --compression-codec --batch-size --timeout --line-reader"
    " --reader-config --producer-property",
    "kafka-console-consumer": "--topic --from-beginning --partition --offset --max-messages --timeout-ms"
    " --group --include --formatter --isolation-level --skip-message-on-error",
    "kafka-consumer-groups": "--list --describe --offsets --members --state --verbose --delete"
    f" --reset-offsets {RESET} --dry-run --execute --export --delete-offsets --validate-regex",
    "kafka-groups": "--list --group-type --protocol",
    "kafka-streams-groups": f"--list --describe --reset-offsets --delete --delete-offsets --topology {RESET}",
    "kafka-acls": "--add --remove --list --producer --consumer --idempotent --allow-principal"
    " --deny-principal --allow-host --deny-host --resource-pattern-type --topic --group --cluster"
    " --transactional-id --delegation-token --operation",
    "kafka-delegation-tokens": "--create --renew --expire --describe",
    "kafka-reassign-partitions": "--generate --execute --verify --cancel --list --throttle"
    " --replica-alter-log-dirs-throttle --additional --preserve-throttles --disable-rack-aware",
    "kafka-leader-election": "--election-type --topic --partition --path-to-json-file --all-topic-partitions",
    "kafka-log-dirs": "--describe --topic-list --broker-list",
    "kafka-get-offsets": "--topic-partitions --time --topic --exclude-internal-topics",
    "kafka-delete-records": "--offset-json-file",
    "kafka-dump-log": "--files --print-data-log --deep-iteration --index-sanity-check --offsets-decoder"
    " --transaction-log-decoder --cluster-metadata-decoder --remote-log-metadata-decoder"
    " --share-group-state-decoder",
    "kafka-transactions": "list describe describe-producers abort find-hanging",
    "kafka-features": "describe upgrade downgrade disable version-mapping feature-dependencies"
    " --release-version --unsafe --dry-run",
    "kafka-metadata-quorum": "describe --status --replication --human-readable add-controller"
    " remove-controller",
    "kafka-metadata-shell": "--snapshot --directory",
    "kafka-storage": "format info random-uuid version-mapping --standalone --initial-controllers"
    " --no-initial-controllers --add-scram --feature",
    "kafka-cluster": "cluster-id unregister list-endpoints api-versions",
    "kafka-client-metrics": "--alter --metrics --interval --match",
    "kafka-producer-perf-test": "--num-records --record-size --throughput --payload-file --transactional-id"
    " --warmup-records",
    "kafka-consumer-perf-test": "--topic --num-records",
    "kafka-e2e-latency": "--topic --num-records --record-size --producer-acks",
    "kafka-verifiable-producer": "--topic --max-messages --throughput --acks --value-prefix --repeating-keys",
    "kafka-verifiable-consumer": "--topic --group-id --max-messages --reset-policy --enable-autocommit",
    "kafka-replica-verification": "--topics-include",
    "kafka-streams-application-reset": f"--application-id --input-topics --internal-topics --dry-run {RESET}",
}

EXAMPLES = {
    "kafka-topics --create --topic x --partitions 3 --config a=b --config c=d": (
        "topic create x -p 3 -X a=b -X c=d"
    ),
    "kafka-topics --list --bootstrap-server h:1": "topic list --internal -b h:1",
    "kafka-topics --alter --partitions 8 --topic t": "topic add-partitions t 8",
    "kafka-topics --delete --topic t --if-exists": "topic delete --yes t --if-exists",
    "kafka-topics --describe": "topic describe --all",
    "kafka-topics --describe --unavailable-partitions": "topic describe --unavailable",
    "kafka-configs --describe --topic t --all": "config describe --all --topic t",
    "kafka-configs --alter --entity-type=brokers --entity-default --add-config k=[1,2],l=3": (
        "config alter --set k=1,2 --set l=3 --cluster-wide"
    ),
    "kafka-configs --alter --entity-type users --entity-name ann --entity-type clients --entity-default"
    " --delete-config producer_byte_rate": (
        "quota alter --delete producer_byte_rate --user ann --client-defaults"
    ),
    "kafka-configs --alter --entity-type users --entity-name ann --add-config SCRAM-SHA-256=[password=x]": (
        "user create --password-stdin ann --mechanism SCRAM-SHA-256"
    ),
    "kafka-configs --alter --entity-type client-metrics --entity-name m --add-config interval.ms=5": (
        "client-metrics alter --name m --interval 5"
    ),
    "kafka-console-producer --topic t --property parse.key=true --property key.separator=:": (
        "produce t -K :"
    ),
    "kafka-console-producer --topic t --compression-codec --sync": (
        "produce t -X max.in.flight.requests.per.connection=1 -z gzip"
    ),
    "kafka-console-consumer --topic t": "consume -o end t",
    "kafka-console-consumer --topic t --from-beginning --timeout-ms 1500 --property print.key=true": (
        "consume t --timeout 1.5 -f '%k\\t%s\\n'"
    ),
    "kafka-console-consumer --topic t --partition 0 --offset earliest": "consume -o beginning t -p 0",
    "kafka-get-offsets --topic-partitions T:0,T:1-2,b --time=-1": "topic offsets T:0,1-2 b --time -1",
    "kafka-consumer-groups --list --state": "group list",
    "kafka-consumer-groups --list --state Stable,Empty": "group list --state Stable --state Empty",
    "kafka-consumer-groups --reset-offsets --group g --topic t:0 --shift-by -1 --execute": (
        "group reset g -t t:0 --execute --shift-by -1"
    ),
    "kafka-transactions find-hanging --broker-id 1 --max-transaction-timeout 20": (
        "txn find-hanging --node 1 --max-transaction-timeout PT20M"
    ),
    "kafka-transactions list --duration-filter 5500": "txn list --longer-than PT5.5S",
    "kafka-producer-perf-test --topic t --num-records 100 --throughput -1 --producer-props acks=all a=b": (
        "bench produce --topic t --records 100 -X acks=all -X a=b"
    ),
    "kafka-features upgrade --feature group.version=1 --dry-run": "feature set group.version 1 --dry-run",
    "kafka-acls --add --deny-principal User:bob --operation Write --topic o"
    " --resource-pattern-type PREFIXED": (
        "acl create --deny --user User:bob --prefixed --topic o --operation Write"
    ),
    "kafka-leader-election --election-type UNCLEAN --topic t --partition 0": (
        "partition elect --unclean --yes -t t -p 0"
    ),
    "kafka-reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,2": (
        "partition reassign --generate -t a -t b --nodes 1,2"
    ),
    "kafka-metadata-shell --snapshot data cat /topics": "metadata cat data /topics",
    "kafka-dump-log --files data": "log dump --batches data",
    "kafka-server-start server.properties --override a=b": "server node -c server.properties -X a=b",
}


def read(path: str) -> str:
    return {"topics.json": '{"topics": [{"topic": "a"}, {"topic": "b"}], "version": 1}'}[path]


def translated(line: str) -> str:
    tool, *words = shlex.split(line)
    return translate(tool, words, read).command


@pytest.mark.parametrize("tool", MAIN_OPTIONS)
def test_every_main_option_is_in_a_use_of_the_tool(tool: str) -> None:
    """As an option of headrace, or with the reason why there is none."""
    known = {name for use in uses_of(tool) for name in use.options}
    assert [name for name in MAIN_OPTIONS[tool].split() if name not in known] == []


def test_every_tool_with_a_command_can_be_translated() -> None:
    """A new tool of the table needs its options."""
    assert {row.tool for row in table() if not row.is_absent} - {"kafka-jmx"} == set(OPTIONS)


def flags() -> Iterator[tuple[str, str]]:
    """(command, option) of every use, as far as they are fixed."""
    for tool in OPTIONS:
        for use in uses_of(tool):
            words = use.command.split()
            texts = [option.words for option in use.options.values() if not option.words.startswith("!")]
            yield use.command, ""
            for word in {word for text in [*texts, *words] for word in text.split()}:
                if word.startswith("-"):
                    yield use.command, word


def test_every_use_is_a_command_with_these_options() -> None:
    """Also those that no example has."""
    found = dict(commands())
    wrong = []
    for line, flag in flags():
        name = next((name for name in found if f"{line} ".startswith(f"{name} ")), None)
        if name is None:
            wrong.append(line)
            continue
        options = {
            each for parameter in found[name].params for each in (*parameter.opts, *parameter.secondary_opts)
        }
        if flag and flag not in options:
            wrong.append(f"{line}: {flag}")
    assert wrong == []


@pytest.mark.parametrize("line", EXAMPLES)
def test_command_lines_are_translated(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has options of the real command."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("server.properties").touch()
    assert translated(line) == f"headrace {EXAMPLES[line]}"
    parse_command(translated(line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kafka-topics --create --topic x --colour", "kafka-topics has no option --colour"),
        ("kafka-topics --shrink", "kafka-topics --shrink has no equivalent"),
        ("kafka-console-producer --topic t --line-reader X", "there are no plug-ins"),
        ("kafka-console-producer --topic t --property null.marker=N", "null.marker has no equivalent"),
        ("kafka-topics --create --topic", "kafka-topics --topic needs a value"),
        ("kafka-configs --alter --topic t --add-config x", "'x' is not key=value"),
        ("kafka-features upgrade --feature a=1 --feature b=2", "one feature per command"),
        ("kafka-share-groups --list", "kafka-share-groups --list has no equivalent"),
    ],
)
def test_command_lines_without_an_equivalent_are_refused(line: str, message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        translated(line)


def test_every_kind_of_entity_has_uses() -> None:
    known = {name for use in uses_of("kafka-configs") for name in use.options}
    assert {f"--{kind}" for kind in ENTITY_KINDS.values()} <= known


def test_command_prints_the_translation(command_line: CommandLine) -> None:
    """Options of Kafka's tool are not taken for those of `kafka-tools`; -o precedes the tool."""
    code, out, _ = command_line("kafka-tools", "bin/kafka-topics.sh", "--create", "--topic", "x")
    assert (code, out) == (0, "headrace topic create x\n")
    code, out, err = command_line("kafka-tools", "kafka-storage", "info", "-c", "f")
    assert (code, out, err) == (0, "headrace storage info DIR\n", "DIR is log.dirs of the file\n")
    code, _, err = command_line("kafka-tools", "kafka-topics", "--create", "--colour")
    assert (code, "no option --colour" in err) == (1, True)
    code, out, _ = command_line("kafka-tools", "-o", "json", "kafka-groups", "--list")
    assert (code, '"command": "headrace group list"' in out) == (0, True)
