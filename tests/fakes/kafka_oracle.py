"""Apache Kafka itself as the oracle: its dump tool and a single node, by the launcher of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.benchmarks.kafka_io import TOOL_JVM, VERSION, absent, classpath, kafka_server, run_tool

if TYPE_CHECKING:
    from pathlib import Path

JVM = list(TOOL_JVM)

__all__ = ["JVM", "VERSION", "absent", "classpath", "dump_log", "kafka_server", "run_tool"]


def dump_log(*paths: Path, options: tuple[str, ...] = ("--print-data-log", "--deep-iteration")) -> str:
    """Kafka's DumpLogSegments over `paths`."""
    return run_tool("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, paths)))
