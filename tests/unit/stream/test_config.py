"""Tests of stream/config.py."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest
from headrace.protocol.errors import ConfigError
from headrace.stream import config as config_module
from headrace.stream.config import OPTIMIZATIONS, StreamsConfig, split_config


def test_the_commit_interval_follows_the_guarantee() -> None:
    """-1 stands for 30 s, and for 100 ms with exactly-once."""
    assert StreamsConfig.of(application_id="a").commit_every_ms == 30_000
    assert StreamsConfig.of(application_id="a", guarantee="exactly_once_v2").commit_every_ms == 100
    assert StreamsConfig.of(application_id="a", commit_interval_ms=0).commit_every_ms == 0


@pytest.mark.parametrize("application_id", ["", "a b", "ä", "x" * 250])
def test_an_application_id_that_is_no_part_of_a_topic_name_is_refused(application_id: str) -> None:
    """Names of internal topics begin with the application id."""
    with pytest.raises(ConfigError, match=r"application\.id"):
        StreamsConfig.of(application_id=application_id)


def test_optimizations_are_all_none_or_a_list() -> None:
    """A list may not hold `all` or an unknown name."""
    assert StreamsConfig.of(application_id="a").optimizations == frozenset()
    assert StreamsConfig.of(application_id="a", optimization="all").optimizations == set(OPTIMIZATIONS)
    two = StreamsConfig.of(
        application_id="a", optimization="merge.repartition.topics, single.store.self.join"
    )
    assert two.optimizations == {"merge.repartition.topics", "single.store.self.join"}
    with pytest.raises(ConfigError, match="stand alone"):
        StreamsConfig.of(application_id="a", optimization="all,merge.repartition.topics")


def test_client_keys_are_split_by_their_longest_prefix() -> None:
    """`main.consumer.` is no key of `consumer.`."""
    own, clients = split_config(
        {
            "application.id": "a",
            "consumer.max.poll.records": 5,
            "main.consumer.max.poll.records": 6,
            "topic.segment.bytes": 7,
        }
    )
    assert own == {"application.id": "a"}
    assert clients["consumer"] == {"max.poll.records": 5}
    assert clients["main.consumer"] == {"max.poll.records": 6}
    assert clients["topic"] == {"segment.bytes": 7}
    assert clients["producer"] == {}


def test_every_key_is_read() -> None:
    """A key that no module reads has no effect: here or in a module of the worker, or by a property here."""
    folder = Path(config_module.__file__).parent
    read = {
        node.attr
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert {field.name for field in fields(StreamsConfig)} <= read
