"""Fixtures of tests that run Apache Kafka or its tools."""

import gc
import warnings
from collections.abc import Iterator

import kafka_oracle
import pytest


@pytest.fixture(scope="module")
def apache_kafka() -> None:
    """Skips the module, or fails it where Kafka is required, if Kafka cannot run here."""
    kafka_oracle.require()


@pytest.fixture
def closed_sockets() -> Iterator[None]:
    """kafka-python leaves its wake-up sockets to the garbage collector: collect them within the test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
