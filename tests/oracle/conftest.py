"""Fixtures of tests that run Apache Kafka or its tools."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import closing

import kafka_oracle
import pytest
from beside.java_io import JavaTools


@pytest.fixture(scope="module")
def apache_kafka() -> None:
    """Skips the module, or fails it where Kafka is required, if Kafka cannot run here."""
    kafka_oracle.require()


@pytest.fixture(scope="session")
def java_tools() -> Iterator[JavaTools]:
    """Kafka's tools in one JVM for all tests."""
    kafka_oracle.require()
    with closing(JavaTools()) as tools:
        yield tools


@pytest.fixture
def closed_sockets() -> Iterator[None]:
    """kafka-python leaves its wake-up sockets to the garbage collector: collect them within the test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
