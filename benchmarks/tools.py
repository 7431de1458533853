"""What Apache Kafka's own performance tools are told, and what they tell. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "org.apache.kafka.tools."
LINGER_MS, BATCH_BYTES = 5, 64 * 1024
PATIENCE_MS = 30_000  # without any record; then it reports what it has, and that is found to be too little
# of the consumer: without the wait of a classic group for its first members, which is not what is measured
CONSUMER: Mapping[str, str] = {"group.protocol": "consumer"}
_PRODUCED = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


def producing(bootstrap: str, topic: str, spec: dict[str, Any], values: str) -> list[str]:
    """Class and arguments of ProducerPerformance: `count` records of the file `values`, without a pause."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": spec["acks"],
        "linger.ms": LINGER_MS,
        "batch.size": BATCH_BYTES,
        "compression.type": "none",
    }
    return [f"{PACKAGE}ProducerPerformance", "--topic", topic, "--num-records", str(spec["count"]),
            "--throughput", "-1", "--payload-file", values,
            "--producer-props", *(f"{name}={value}" for name, value in settings.items())]  # fmt: skip


def consuming(bootstrap: str, topic: str, spec: dict[str, Any], config: str, group: str) -> list[str]:
    """Class and arguments of ConsumerPerformance: `count` records from the beginning.

    By itself the tool would draw its group's number, perhaps that of one which has read all.
    """
    return [f"{PACKAGE}ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
            "--group", group, "--messages", str(spec["count"]), "--timeout", str(PATIENCE_MS),
            "--consumer.config", config, "--hide-header"]  # fmt: skip


def produced(told: str) -> tuple[int, float]:
    """(records, seconds) by the last line of ProducerPerformance. Errors: ValueError."""
    found = _PRODUCED.search(told)
    if found is None:
        raise ValueError(f"ProducerPerformance told: {told}")
    records = int(found[1])
    return records, records / float(found[2])


def consumed(told: str) -> tuple[int, float]:
    """(records, seconds but for those of joining) by ConsumerPerformance's line. Errors: ValueError."""
    columns = told.split(", ")
    if len(columns) != 10:
        raise ValueError(f"ConsumerPerformance told: {told}")
    return int(columns[4]), int(columns[7]) / 1000
