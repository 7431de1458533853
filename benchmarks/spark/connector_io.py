"""Spark's Kafka connector, its jars from Maven."""

from __future__ import annotations

from pathlib import Path

from headrace.benchmarks.servers import kafka_io

from .cells import VERSIONS

POM = Path(__file__).with_name("connector_pom.xml")


def classpath(line: str) -> str:
    """The jars of the connector for a line of Spark, fetched once into the cache folder."""
    found = VERSIONS[line]
    given = {f"headrace.{name}": value for name, value in found._asdict().items()}
    return kafka_io.fetched(f"spark-kafka-{found.connector}", POM, given)
