"""Apache Kafka itself as the oracle: its dump tool and a single node, by the launcher of the benchmarks."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from headrace.benchmarks.servers.kafka_io import (
    TOOL_JVM,
    VERSION,
    KafkaError,
    absent,
    classpath,
    kafka_server,
    run_tool,
)

JVM = list(TOOL_JVM)

__all__ = ["JVM", "VERSION", "KafkaError", "classpath", "dump_log", "kafka_server", "require", "run_tool"]


def require() -> None:
    """Skip the test if Apache Kafka cannot run here; fail it if HEADRACE_REQUIRE_KAFKA is set."""
    reason = absent()
    if reason is not None and os.environ.get("HEADRACE_REQUIRE_KAFKA"):
        pytest.fail(f"Apache Kafka is required here: {reason}")
    if reason is not None:
        pytest.skip(f"Apache Kafka's tools need a JDK and Maven: {reason}")


def dump_log(
    *paths: Path,
    options: tuple[str, ...] = ("--print-data-log", "--deep-iteration"),
    run: Callable[..., str] = run_tool,
) -> str:
    """The output of Kafka's DumpLogSegments for `paths`; `run` takes the class and its arguments."""
    return run("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, paths)))
