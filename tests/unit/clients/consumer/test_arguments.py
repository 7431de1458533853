"""Arguments of a consumer, checked and converted."""

from typing import Any

import pytest
from headrace.clients.consumer.arguments import (
    bad_record_action,
    checked_offset,
    checked_partitions,
    checked_topics,
    deserializers_of,
)
from headrace.clients.serdes import bytes_, utf8
from headrace.protocol.errors import ConfigError, SerializationError
from headrace.protocol.model import TopicPartition


def test_plain_bytes_have_no_deserializer() -> None:
    """None for bytes_, a function for any other serde."""
    key, value = deserializers_of(bytes_, utf8)
    assert key is None
    assert value is not None
    assert value("t", b"x", ()) == "x"


def test_bad_record_action() -> None:
    """raise, skip with a warning, or a callable; anything else is rejected."""
    warned: list[tuple[str, str]] = []

    def warn(kind: str, text: str) -> None:
        warned.append((kind, text))

    assert bad_record_action("raise", warn) is None
    skip: Any = bad_record_action("skip", warn)
    assert skip(object(), SerializationError("t-0 at offset 5")) is None
    assert warned == [("records skipped", "skipped: t-0 at offset 5")]
    assert bad_record_action(print, warn) is print
    with pytest.raises(ConfigError):
        bad_record_action("ignore", warn)


def test_topic_names_are_unique() -> None:
    """A list as one argument is a likely mistake."""
    assert checked_topics(["a", "b", "a"]) == ("a", "b")
    with pytest.raises(ConfigError, match="by name"):
        checked_topics([["a"]])


def test_partitions_are_unique() -> None:
    """A plain pair is accepted; other types are errors, since they would break the reading of all."""
    places = checked_partitions([TopicPartition("t", 0), ("t", 1), ("t", 0)])
    assert places == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert [place.topic for place in places] == ["t", "t"]
    for wrong in ("t", ["t"], [("t", "0")], [(None, 0)], [5]):
        with pytest.raises(TypeError, match="TopicPartition"):
            checked_partitions(wrong)


@pytest.mark.parametrize(
    ("offset", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError)]
)
def test_negative_offset_is_rejected(offset: Any, error: type[Exception]) -> None:
    """Elsewhere -1 and -2 mean the end and the start of the log."""
    with pytest.raises(error):
        checked_offset(offset)
    assert checked_offset(5) == 5
