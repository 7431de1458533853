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
    """Skip a test where Apache Kafka cannot run, or fail it where HEADRACE_REQUIRE_KAFKA says it must."""
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
    """Kafka's DumpLogSegments over `paths`; `run` gets the class and its arguments, and gives the output."""
    return run("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, paths)))
