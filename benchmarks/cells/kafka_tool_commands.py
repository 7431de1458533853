"""Command lines of Apache Kafka's performance tools, and the parsing of what they print. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "org.apache.kafka.tools."
LINGER_MS, BATCH_BYTES = 5, 64 * 1024
TIMEOUT_MS = 30_000  # ConsumerPerformance ends after this long without a record, and reports fewer records
# a classic group waits for its first members (group.initial.rebalance.delay.ms), which is not measured here
CONSUMER_CONFIGS: Mapping[str, str] = {"group.protocol": "consumer"}
_PRODUCED = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


def produce_command(
    bootstrap: str, topic: str, spec: Mapping[str, Any], values_file: str, config_file: str = ""
) -> list[str]:
    """Class and arguments of ProducerPerformance: `count` records as fast as possible. `config_file`: of
    security, if there is any."""
    configs = {
        "bootstrap.servers": bootstrap,
        "acks": spec["acks"],
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "compression.type": "none",
    }
    return [f"{PACKAGE}ProducerPerformance", "--topic", topic, "--num-records", str(spec["count"]),
            "--throughput", "-1", "--payload-file", values_file,
            *(("--producer.config", config_file) if config_file else ()),
            "--producer-props", *(f"{name}={value}" for name, value in configs.items())]  # fmt: skip


def consume_command(
    bootstrap: str, topic: str, spec: Mapping[str, Any], config_file: str, group: str
) -> list[str]:
    """Class and arguments of ConsumerPerformance: `count` records from the beginning.

    By default the tool draws a random group, perhaps one that has read everything before.
    """
    return [f"{PACKAGE}ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
            "--group", group, "--messages", str(spec["count"]), "--timeout", str(TIMEOUT_MS),
            "--consumer.config", config_file, "--hide-header"]  # fmt: skip


def parse_produced(line: str) -> tuple[int, float]:
    """(records, seconds) from the last line of ProducerPerformance. Errors: ValueError."""
    found = _PRODUCED.search(line)
    if found is None:
        raise ValueError(f"ProducerPerformance printed: {line}")
    records = int(found[1])
    return records, records / float(found[2])


def parse_consumed(line: str) -> tuple[int, float]:
    """(records, seconds without joining the group) from ConsumerPerformance. Errors: ValueError."""
    columns = line.split(", ")
    if len(columns) != 10:
        raise ValueError(f"ConsumerPerformance printed: {line}")
    return int(columns[4]), int(columns[7]) / 1000
