"""The alert rules: each fires for its fault and is quiet without it, as promtool evaluates them."""

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from headrace.runtime.telemetry.table import series_names
from headrace.services.telemetry.alert_rule import AlertRule, rules_file
from headrace.services.telemetry.alert_rules import ALERT_RULES, RULE_GROUPS
from promql import metrics_in, unknown_labels

ROOT = Path(__file__).resolve().parents[4]
HOURS = 8  # of input, one value a minute
SERVER = 'job="headrace", instance="a:1"'
OTHER = 'job="headrace", instance="b:1"'
P = "kafka_server_replicamanager_"
C = "kafka_controller_kafkacontroller_"
BROKER = "kafka_server_brokertopicmetrics_"
IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
DAY = 86_400
FAULT_TESTS = ROOT / "tests" / "faults" / "alerts"
UNCAUSED: dict[str, str] = {}  # rules whose fault no test can cause, and why

# Series by rule, with and without the fault. "10" is constant, "0+60" a counter that grows by 60 a minute.
# What is not constant begins at once and lasts.
Series = dict[str, str]


def times(name: str, bucket: str, labels: str = "") -> Series:
    """A histogram of which all values are in the bucket up to `bucket`."""
    behind = f"{labels}, " if labels else ""
    bounds = ["64.0", "128.0", "262.144", "524.288", "1048.576", "2097.152", "+Inf"]
    return {
        f'{name}_bucket{{{SERVER}, {behind}le="{bound}"}}': "0+60"
        if bounds.index(bound) >= bounds.index(bucket)
        else "0"
        for bound in bounds
    }


def one(name: str, value: str, labels: str = "") -> Series:
    return {f"{name}{{{SERVER}{f', {labels}' if labels else ''}}}": value}


def shards(state: str) -> Series:
    """One partition of a group coordinator in this state, none of a transaction coordinator."""
    kinds = ("group", "transaction")
    return {
        key: value
        for kind in kinds
        for each in ("active", "loading", "failed")
        for key, value in one(
            f"kafka_server_{kind}_coordinator_metrics_num_partitions",
            str(int(each == state and kind == "group")),
            f'state="{each}"',
        ).items()
    }


ACTIVE = f"{C}activecontrollercount"
LISTENER = 'listener="SSL"'
DIRECTORY = 'directory="/d"'
LAG, AGE = "kafka_consumergroup_lag_sum", "kafka_consumergroup_lag_seconds_max"
GROUP = 'group="g"'
FREE, SIZE = "headrace_log_manager_disk_free_bytes", "headrace_log_manager_disk_total_bytes"
DISK = one(SIZE, "1000", DIRECTORY)
PARTITIONS = one(f"{C}globalpartitioncount", "100")
SKEWED, EVEN = "headrace_kafka_controller_leader_skew", "headrace_kafka_controller_replica_skew"
RAFT = "kafka_server_raft_metrics_"
TIMES = "kafka_network_requestmetrics_"
VOTERS = one(f"{RAFT}number_of_voters", "2")
CASES: dict[str, tuple[Series, Series]] = {
    "HeadraceNoActiveController": (one(ACTIVE, "0"), one(ACTIVE, "1")),
    "HeadraceSeveralActiveControllers": (
        {**one(ACTIVE, "1"), f"{ACTIVE}{{{OTHER}}}": "1"},
        {**one(ACTIVE, "1"), f"{ACTIVE}{{{OTHER}}}": "0"},
    ),
    "HeadraceOfflinePartitions": (
        one(f"{C}offlinepartitionscount", "1"),
        one(f"{C}offlinepartitionscount", "0"),
    ),
    "HeadraceFencedNodes": (one(f"{C}fencedbrokercount", "1"), one(f"{C}fencedbrokercount", "0")),
    "HeadraceUncleanElection": (
        one("kafka_controller_controllerstats_uncleanleaderelections_total", "0+1"),
        one("kafka_controller_controllerstats_uncleanleaderelections_total", "3"),
    ),
    "HeadraceControllerSlow": (
        times("kafka_controller_controllereventmanager_eventqueueprocessingtimems", "2097.152"),
        times("kafka_controller_controllereventmanager_eventqueueprocessingtimems", "64.0"),
    ),
    "HeadracePreferredLeaderImbalance": (
        {**one(f"{C}preferredreplicaimbalancecount", "11"), **PARTITIONS},
        {**one(f"{C}preferredreplicaimbalancecount", "9"), **PARTITIONS},
    ),
    "HeadraceLeaderSkew": ({**one(SKEWED, "1.6"), **PARTITIONS}, {**one(SKEWED, "1.4"), **PARTITIONS}),
    "HeadraceReplicaSkew": ({**one(EVEN, "1.6"), **PARTITIONS}, {**one(EVEN, "1.4"), **PARTITIONS}),
    "HeadraceQuorumWithoutLeader": (one(f"{RAFT}current_leader", "-1"), one(f"{RAFT}current_leader", "0")),
    "HeadraceQuorumVoterMissing": (
        {**VOTERS, **one(f"{RAFT}current_epoch", "3")},
        {**VOTERS, **one(f"{RAFT}current_epoch", "3"), f"{RAFT}current_epoch{{{OTHER}}}": "3"},
    ),
    "HeadraceQuorumElections": (one(f"{RAFT}current_epoch", "0+1"), one(f"{RAFT}current_epoch", "7")),
    "HeadraceQuorumCommitSlow": (
        times(f"{RAFT}commit_latency", "1048.576"),
        times(f"{RAFT}commit_latency", "64.0"),
    ),
    "HeadraceQuorumVoterBehind": (
        {**one(f"{RAFT}high_watermark", "5000"), f"{RAFT}log_end_offset{{{OTHER}}}": "100"},
        {**one(f"{RAFT}high_watermark", "5000"), f"{RAFT}log_end_offset{{{OTHER}}}": "4990"},
    ),
    "HeadraceUnderMinIsr": (
        one(f"{P}underminisrpartitioncount", "1"),
        one(f"{P}underminisrpartitioncount", "0"),
    ),
    "HeadraceUnderReplicated": (
        one(f"{P}underreplicatedpartitions", "1"),
        one(f"{P}underreplicatedpartitions", "0"),
    ),
    "HeadraceAtMinIsr": (
        one("headrace_replica_manager_under_replicated_at_min_isr", "1"),
        one("headrace_replica_manager_under_replicated_at_min_isr", "0"),
    ),
    "HeadraceIsrFlapping": (
        one(f"{P}isrshrinks_total", "0+1"),
        one(f"{P}isrshrinks_total", "0x61 500x600"),  # one restart of a node with many partitions
    ),
    "HeadraceReplicaLag": (
        one("kafka_server_replicafetchermanager_maxlag", "200000"),
        one("kafka_server_replicafetchermanager_maxlag", "1000"),
    ),
    "HeadraceOfflineReplicas": (one(f"{P}offlinereplicacount", "1"), one(f"{P}offlinereplicacount", "0")),
    "HeadraceReassignmentStuck": (
        one(f"{P}reassigningpartitions", "2"),
        one(f"{P}reassigningpartitions", "2 0 2 0 2 0 2 0x600"),
    ),
    "HeadraceLogDirOffline": (
        one("kafka_log_logmanager_logdirectoryoffline", "1", 'logDirectory="/d"'),
        one("kafka_log_logmanager_logdirectoryoffline", "0", 'logDirectory="/d"'),
    ),
    "HeadraceLogDirFull": (
        one("headrace_log_manager_log_directory_full", "1", DIRECTORY),
        one("headrace_log_manager_log_directory_full", "0", DIRECTORY),
    ),
    "HeadraceDiskLow": ({**one(FREE, "140", DIRECTORY), **DISK}, {**one(FREE, "160", DIRECTORY), **DISK}),
    "HeadraceDiskFullSoon": (
        {**one(FREE, "30000-100", DIRECTORY), **one(SIZE, "100000", DIRECTORY)},
        {**one(FREE, "30000", DIRECTORY), **one(SIZE, "100000", DIRECTORY)},
    ),
    "HeadraceCompactionFails": (
        one("kafka_log_logcleanermanager_uncleanable_partitions_count", "1", 'logDirectory="/d"'),
        {},
    ),
    "HeadraceCompactionBehind": (
        one("kafka_log_logcleanermanager_max_dirty_percent", "95"),
        one("kafka_log_logcleanermanager_max_dirty_percent", "60"),
    ),
    "HeadraceServerDown": (one("up", "0"), {**one("up", "1"), 'up{job="others", instance="c"}': "0"}),
    "HeadraceServerRestarts": (
        one("process_start_time_seconds", "0+1"),
        one("process_start_time_seconds", "7"),
    ),
    "HeadraceEventLoopBusy": (one(IDLE, "0.2"), one(IDLE, "0.4")),
    "HeadraceEventLoopSaturated": (one(IDLE, "0.05"), one(IDLE, "0.15")),
    "HeadraceEventLoopStalls": (
        one("headrace_event_loop_longest_stall_seconds", "2"),
        one("headrace_event_loop_longest_stall_seconds", "0.1"),
    ),
    "HeadraceMetricsStale": (
        one("headrace_metrics_age_seconds", "0+60"),
        one("headrace_metrics_age_seconds", "0"),
    ),
    "HeadraceControllerUnreachable": (
        one("headrace_broker_metadata_metrics_seconds_since_controller", "0+60"),
        one("headrace_broker_metadata_metrics_seconds_since_controller", "0.4"),
    ),
    "HeadraceMetadataBehind": (
        {
            **one(f"{C}lastappliedrecordoffset", "9000"),
            f"kafka_server_broker_metadata_metrics_last_applied_record_offset{{{OTHER}}}": "100",
        },
        {
            **one(f"{C}lastappliedrecordoffset", "9000"),
            f"kafka_server_broker_metadata_metrics_last_applied_record_offset{{{OTHER}}}": "8999",
        },
    ),
    "HeadraceFileDescriptorsLow": (
        {**one("process_open_fds", "90"), **one("process_max_fds", "100")},
        {**one("process_open_fds", "70"), **one("process_max_fds", "100")},
    ),
    "HeadraceCertificateExpires": (
        one("headrace_tls_certificate_not_after_seconds", str(13 * DAY), LISTENER),
        one("headrace_tls_certificate_not_after_seconds", str(15 * DAY), LISTENER),
    ),
    "HeadraceCertificateExpiresSoon": (
        one("headrace_tls_certificate_not_after_seconds", str(DAY), LISTENER),
        one("headrace_tls_certificate_not_after_seconds", str(3 * DAY), LISTENER),
    ),
    "HeadraceProduceSlow": (
        times(f"{TIMES}totaltimems", "2097.152", 'request="Produce"'),
        {
            **times(f"{TIMES}totaltimems", "64.0", 'request="Produce"'),
            **times(f"{TIMES}totaltimems", "2097.152", 'request="FetchConsumer"'),
        },
    ),
    "HeadraceReplicationSlow": (
        times(f"{TIMES}remotetimems", "1048.576", 'request="Produce"'),
        times(f"{TIMES}remotetimems", "64.0", 'request="Produce"'),
    ),
    "HeadraceProduceFails": (
        one(f"{BROKER}failedproducerequests_total", "0+120"),
        {
            **one(f"{BROKER}failedproducerequests_total", "0+6"),
            **one(f"{BROKER}failedproducerequests_total", "0+6", 'topic="t"'),
        },
    ),
    "HeadraceFetchFails": (
        one(f"{BROKER}failedfetchrequests_total", "0+120"),
        one(f"{BROKER}failedfetchrequests_total", "0+6"),
    ),
    "HeadraceBytesRejected": (
        one(f"{BROKER}bytesrejected_total", "0+100", 'topic="t"'),
        one(f"{BROKER}bytesrejected_total", "100", 'topic="t"'),
    ),
    "HeadracePurgatoryLarge": (
        one("kafka_server_delayedoperationpurgatory_purgatorysize", "6000", 'delayedOperation="Fetch"'),
        one("kafka_server_delayedoperationpurgatory_purgatorysize", "600", 'delayedOperation="Fetch"'),
    ),
    "HeadraceAuthenticationFailures": (
        one("kafka_server_socket_server_metrics_failed_authentication_total", "0+120", LISTENER),
        one("kafka_server_socket_server_metrics_failed_authentication_total", "0+6", LISTENER),
    ),
    "HeadraceClientsThrottled": (
        one("headrace_client_quota_manager_throttled_total", "0+120", 'quota="producer_byte_rate"'),
        one("headrace_client_quota_manager_throttled_total", "0+6", 'quota="producer_byte_rate"'),
    ),
    "HeadraceCoordinatorFailed": (shards("failed"), shards("active")),
    "HeadraceCoordinatorLoading": (shards("loading"), shards("active")),
    "HeadraceRebalances": (
        {
            **one("kafka_server_group_coordinator_metrics_group_completed_rebalance_total", "0+40"),
            **one("kafka_server_group_coordinator_metrics_consumer_group_rebalance_total", "0+40"),
        },
        {
            **one("kafka_server_group_coordinator_metrics_group_completed_rebalance_total", "0+10"),
            **one("kafka_server_group_coordinator_metrics_consumer_group_rebalance_total", "0+10"),
        },
    ),
    "HeadraceConsumerLagGrows": (
        {**one(LAG, "0+50", GROUP), **one(AGE, "400", GROUP)},
        {**one(LAG, "9000-1", GROUP), **one(AGE, "400", GROUP)},
    ),
    "HeadraceConsumerLate": (one(AGE, "4000", GROUP), one(AGE, "30", GROUP)),
    "HeadraceTransactionLate": (
        one(f"{P}partitionswithlatetransactionscount", "1"),
        one(f"{P}partitionswithlatetransactionscount", "0"),
    ),
    "HeadraceTransactionOld": (
        one("headrace_replica_manager_oldest_transaction_age_seconds", "0+60"),
        one("headrace_replica_manager_oldest_transaction_age_seconds", "30"),
    ),
    "HeadraceTransactionsUnverified": (
        one("kafka_server_addpartitionstotxnmanager_verificationfailurerate_total", "0+60"),
        one("kafka_server_addpartitionstotxnmanager_verificationfailurerate_total", "40"),
    ),
}


def values(text: str) -> str:
    """In promtool's notation, for all minutes of the test."""
    if "x" in text:
        return text
    if match := re.fullmatch(r"(-?\d+)([+-]\d+)", text):
        return f"{match[1]}{match[2]}x{60 * HOURS}"
    return f"{text}x{60 * HOURS}"


def inputs(series: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": values(text)} for name, text in series.items()]


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(rules_file(RULE_GROUPS))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERT_RULES)} rules found" in done.stdout


def test_each_rule_fires_for_its_fault_alone(tmp_path: Path) -> None:
    """An hour after its duration has passed; and not without the fault."""
    assert CASES.keys() == {rule.name for rule in ALERT_RULES}
    (tmp_path / "rules.yml").write_text(rules_file(RULE_GROUPS))
    with_fault, without = [], []
    for rule in ALERT_RULES:
        minutes = 65 + minutes_of(rule.hold)
        facts = {"alertname": rule.name, "eval_time": f"{minutes}m"}
        for series, tests in zip(CASES[rule.name], (with_fault, without), strict=True):
            tests.append({"interval": "1m", "input_series": inputs(series), "alert_rule_test": [facts]})
    quiet = run(tmp_path, without)
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr
    # promtool reports each alert that is not expected, with its labels
    fired = run(tmp_path, with_fault)
    output = fired.stdout + fired.stderr
    assert {rule.name for rule in ALERT_RULES} - set(re.findall(r'alertname="(\w+)"', output)) == set(), (
        output
    )


def minutes_of(hold: str) -> int:
    number, unit = int(hold[:-1]), hold[-1]
    return {"s": 1, "m": number, "h": 60 * number}[unit]


def run(folder: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """`promtool test rules`."""
    facts = {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(facts))  # JSON is YAML
    # A database for each test, in memory: promtool waits for the disk otherwise.
    memory = {"TMPDIR": "/dev/shm"} if os.path.isdir("/dev/shm") else {}
    return subprocess.run(
        ["promtool", "test", "rules", folder / "tests.yml"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **memory},
    )


@pytest.mark.parametrize("rule", ALERT_RULES, ids=lambda rule: rule.name)
def test_rules_name_metrics_and_labels_that_exist(rule: AlertRule) -> None:
    """Of the declared table; a typing error in a name would make a rule that never fires."""
    found = metrics_in(rule.expression)
    assert found - series_names() == set()
    assert found or rule.name == "HeadraceServerDown"
    assert unknown_labels(rule.expression, rule.summary.replace("$labels.", "")) == set()


def test_each_rule_has_its_section_of_the_runbook() -> None:
    """And no section is left of a rule that is gone. Each says what to run and how to verify it."""
    text = (ROOT / "docs" / "RUNBOOK.md").read_text()
    sections = dict(re.findall(r"^### (Headrace\w+)\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule.name for rule in ALERT_RULES]
    for name, section in sections.items():
        assert re.search(r"^\*\*Cause\.\*\* ", section, flags=re.MULTILINE), name
        assert re.search(r"^\*\*Verify\.\*\* ", section, flags=re.MULTILINE), name
        assert "headrace " in section or "`" in section, name


# --- faults in real clusters --------------------------------------------------------------------------------


def rules_of_fault_tests(texts: Iterable[str]) -> set[str]:
    """The names in the marks `alerts` of test functions. The fixture `fault` of these tests fails unless each
    of the rules fires and stops."""
    marks = [
        mark
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for mark in node.decorator_list
        if ast.unparse(mark).startswith("pytest.mark.alerts(")
    ]
    return {each.value for mark in marks for each in ast.walk(mark) if isinstance(each, ast.Constant)}


def test_each_rule_has_a_test_with_its_fault() -> None:
    """Or a written reason why its fault cannot be caused; and no test names a rule that is gone."""
    tested = rules_of_fault_tests(path.read_text() for path in sorted(FAULT_TESTS.glob("test_*.py")))
    rules = {rule.name for rule in ALERT_RULES}
    assert tested - rules == set()
    assert rules - tested == UNCAUSED.keys()
    assert all(UNCAUSED.values())


def test_planted_test_without_its_rule_is_found() -> None:
    """A name counts only in the mark of a test."""
    text = '@pytest.mark.alerts("A", *("B",))\ndef test_x(fault):\n    fires("C")\n'
    assert rules_of_fault_tests([text]) == {"A", "B"}
    assert rules_of_fault_tests([text.replace("def test_x", "def x")]) == set()
    assert rules_of_fault_tests([text.replace("mark.alerts", "mark.faults")]) == set()
