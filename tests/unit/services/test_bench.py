"""`headrace bench`: usage errors before any request, and the report as text."""

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from headrace.services.bench.histogram import Histogram
from headrace.services.cli.bench import text_report

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("command", ["", "produce", "consume", "latency", "mixed"])
def test_help(command: str, command_line: CommandLine) -> None:
    """Help needs no cluster."""
    code, out, _ = command_line("bench", *command.split(), "--help")
    assert (code, "Usage: headrace bench" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("produce --records 0", "--records"),
        ("produce --record-size -1", "--record-size"),
        ("produce --throughput 0", "--throughput"),
        ("produce --throughput 1e18", "--throughput"),
        ("latency --throughput 1e18", "--throughput"),
        ("produce --record-size 1000000000", "--record-size"),
        ("produce --duration 0", "--duration"),
        ("produce --producers 65", "--producers"),
        ("produce --api poll", "--api"),
        ("produce --payload noise", "--payload"),
        ("produce --payload-file /no/such/file", "--payload-file"),
        ("produce --key-size 8", "--key-size has no effect without --keys"),
        ("produce --keys 300 --key-size 1", "keys of 1 bytes cannot have 300 distinct values"),
        ("produce --chunk 10", "--chunk has no effect on --api send"),
        ("produce --create", "--create needs --topic"),
        ("produce --topic t --partitions 3", "--partitions has no effect on an existing topic"),
        ("produce --topic t --replication-factor 3", "--replication-factor has no effect"),
        ("produce --acks 2", "--acks"),
        ("produce -X linger=5", "did you mean 'linger.ms'"),
        ("produce -X linger.ms=soon", "linger.ms"),
        ("produce -X fetch.min.bytes=1", "fetch.min.bytes"),
        ("produce -X delivery.timeout.ms=1", "delivery.timeout.ms"),
        ("produce extra", "extra"),
        ("consume -X linger.ms=5", "linger.ms"),
        ("consume --from end", "--from end"),
        ("consume --topic t --from end", "--from end needs --records"),
        ("consume --consumers 7", "--consumers 7 cannot share 6 partitions"),
        ("consume --timeout 0", "--timeout"),
        ("latency --record-size 15", "--record-size must be at least 16"),
        ("latency --records 100000000", "can be tracked"),
        ("mixed --consumers 3 --partitions 2", "--consumers 3 cannot share 2 partitions"),
        ("mixed --read-from middle", "--read-from"),
    ],
)
def test_wrong_usage(arguments: str, text: str, command_line: CommandLine) -> None:
    """Exit code 2, nothing on standard output, and a line that names the option."""
    code, out, err = command_line.at("127.0.0.1:1")("bench", *arguments.split())
    assert (code, out) == (2, "")
    assert text in err.splitlines()[-1]


def test_payload_file_without_lines_is_an_error(tmp_path: Path, command_line: CommandLine) -> None:
    """Before a topic is created."""
    (tmp_path / "empty").touch()
    code, _, err = command_line.at("127.0.0.1:1")(
        "bench", "produce", "--payload-file", str(tmp_path / "empty")
    )
    assert (code, "the payload file has no lines" in err) == (2, True)


@pytest.mark.parametrize("command", ["produce", "consume", "latency", "mixed"])
def test_unreachable_cluster_is_an_error(command: str, command_line: CommandLine) -> None:
    """One line with a hint; no worker is started, no result printed."""
    code, out, err = command_line.at("127.0.0.1:1")("bench", command, "-X", "default.api.timeout.ms=200")
    assert (code, out) == (1, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["headrace", "hint"]


def facts(**more: Any) -> dict[str, Any]:
    latency = Histogram()
    latency.record(2_000_000)
    found: dict[str, Any] = {"records": 1234, "elapsed_s": 0.5, "records_per_s": 2468.0, "mb_per_s": 1.5}
    return {**found, "client_cpu_s": 0.25, "latency_ms": latency.summary_ms(), **more}


def test_report_has_one_figure_per_line() -> None:
    """Failures are next to the records; `mixed` has two sections."""
    top = {"bench": "produce", "topic": "t", "partitions": 6, "temporary_topic": True}
    lines = text_report({**top, **facts(failed=3, unsent=4)})
    assert lines[0] == "produce: topic t, 6 partitions, temporary"
    assert lines[1] == "records  1,234, 7 failed or not sent"
    assert "2,468 records/s, 1.5 MB/s" in lines[3]
    assert lines[-1].startswith("latency  p50 2.000  p90 2.000  p99 2.000  p99.9 2.000  max 2.000")
    lines = text_report({**top, "bench": "mixed", "produce": facts(), "consume": facts(latency_ms=None)})
    assert [line for line in lines if not line.startswith(" ")][1:] == ["produce:", "consume:"]
    assert sum("latency" in line for line in lines) == 1


def test_commands_of_the_page_exist(command_line: CommandLine) -> None:
    """With the options that docs/BENCH.md has."""
    page = (ROOT / "docs" / "BENCH.md").read_text()
    commands = [line.split() for line in page.splitlines() if line.startswith("headrace bench ")]
    assert {words[2] for words in commands} == {"produce", "consume", "latency", "mixed"}
    for words in commands:
        code, text, _ = command_line(*words[1:3], "--help")
        assert code == 0
        for option in (word for word in words if word.startswith("-")):
            assert re.search(rf"(^|\s){option}[ ,\n]", text), option
