"""The jars of Spark's Kafka connector, from Maven."""

from __future__ import annotations

from pathlib import Path

from headrace.benchmarks.servers import kafka_io

from .cells import VERSIONS

POM = Path(__file__).with_name("connector_pom.xml")


def classpath(line: str) -> str:
    """The connector for a Spark version, downloaded once into the cache folder."""
    versions = VERSIONS[line]
    properties = {f"headrace.{name}": value for name, value in versions._asdict().items()}
    return kafka_io.download(f"spark-kafka-{versions.connector}", POM, properties)
