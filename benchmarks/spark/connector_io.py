"""Spark's Kafka connector, its jars from Maven."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from headrace.benchmarks import kafka_io

POM = Path(__file__).with_name("connector_pom.xml")


class Versions(NamedTuple):
    """What belongs together: the connector, its helper for tokens, Kafka's client, a pool of objects."""

    scala: str
    connector: str
    token: str
    kafka: str
    pool: str


# of Spark's line, as the environment has it. Maven has no connector of 4.3, and of its helper for tokens,
# which nothing here asks for one, no version after 4.0.0 for Scala 2.13.
VERSIONS = {
    "3.5": Versions("2.12", "3.5.7", "3.5.7", "3.4.1", "2.11.1"),
    "4": Versions("2.13", "4.2.0", "4.0.0", "3.9.2", "2.13.1"),
}


def classpath(line: str) -> str:
    """The jars of the connector for a line of Spark, fetched once into the cache folder."""
    found = VERSIONS[line]
    given = {f"headrace.{name}": value for name, value in found._asdict().items()}
    return kafka_io.fetched(f"spark-kafka-{found.connector}", POM, given)
