"""runtime/config.py: one declaration per key; wrong keys and values fail with a clear word."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from headrace.protocol.errors import ConfigError
from headrace.runtime.config import Config, key, text_of


@dataclass(frozen=True, kw_only=True)
class Sample(Config):
    """A few keys of every kind."""

    segment_bytes: int = key("segment.bytes", 1024, low=10, high=4096, unit="bytes", doc="Roll at this.")
    is_on: bool = key("switch", False, doc="On or off.")
    ratio: float = key("ratio", 0.5, low=0.0, high=1.0, doc="A share.")
    mode: str = key("mode", "async", choices=("async", "fsync"), doc="One of two.")
    dirs: tuple[str, ...] = key("log.dirs", (), doc="Folders.")


def test_text_and_typed_values_mean_the_same() -> None:
    """Topic configs arrive as text, Python callers pass values."""
    text = Sample.of({"segment.bytes": " 20 ", "switch": "TRUE", "ratio": "0.25", "log.dirs": "/a, /b,"})
    assert text == Sample(segment_bytes=20, is_on=True, ratio=0.25, dirs=("/a", "/b"))


def test_dotted_and_underscored_names_are_one_and_keywords_win() -> None:
    """`config={"segment.bytes": 20}` and `segment_bytes=30` together: the keyword argument holds."""
    assert Sample.of({"segment.bytes": 20}, segment_bytes=30).segment_bytes == 30


def test_an_unknown_key_names_the_nearest() -> None:
    """A typo must not become a silent default."""
    with pytest.raises(ConfigError, match=r"segment\.byte.*did you mean 'segment\.bytes'"):
        Sample.of({"segment.byte": 20})


def test_the_suggestion_is_spelled_as_the_typo_was() -> None:
    """Pasted back, it must work: a keyword argument with dots is no Python."""
    with pytest.raises(ConfigError, match="did you mean 'segment_bytes'"):
        Sample.of(segment_byte=20)
    with pytest.raises(ConfigError, match="did you mean 'segment_bytes'"):
        Sample.of(segmentbytes=20)
    with pytest.raises(ConfigError, match="did you mean 'segment_bytes'"):
        Sample.of({"segment_byte": 20})
    with pytest.raises(ConfigError, match=r"did you mean 'segment\.bytes'"):
        Sample.of({"segmentbytes": 20})


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("segment.bytes", 9, "at least 10"),
        ("segment.bytes", 4097, "at most 4096"),
        ("segment.bytes", "1e3", "whole number"),
        ("segment.bytes", 12.5, "whole number"),
        ("segment.bytes", True, "whole number"),
        ("segment.bytes", None, "whole number"),
        ("switch", "yes", "true or false"),
        ("switch", 1, "true or false"),
        ("ratio", "nan-ish", "a number"),
        ("mode", "sometimes", "one of async, fsync"),
        ("mode", 3, "text"),
        ("log.dirs", [1], "a list"),
    ],
)
def test_bad_values_name_the_key_and_what_is_wanted(name: str, value: object, word: str) -> None:
    """The message carries the key, the rule and the value."""
    with pytest.raises(ConfigError, match=word) as caught:
        Sample.of({name: value})
    assert name in str(caught.value)


def test_nan_is_no_number_in_range() -> None:
    """NaN compares false with both ends and must not slip through."""
    with pytest.raises(ConfigError):
        Sample(ratio=float("nan"))


def test_merged_overrides_only_what_it_names() -> None:
    """Topic configs lie over the node's defaults."""
    base = Sample(segment_bytes=20, mode="fsync")
    assert base.merged({"segment.bytes": "40"}) == Sample(segment_bytes=40, mode="fsync")


def test_mapping_round_trip_through_text() -> None:
    """What `describe` prints can be set again."""
    sample = Sample(segment_bytes=20, is_on=True, dirs=("/a", "/b"))
    assert Sample.of({name: text_of(value) for name, value in sample.to_mapping().items()}) == sample


def test_defaults_need_no_valid_instance() -> None:
    """The reference page shows defaults of configurations that cannot be built without an argument."""
    assert Sample.defaults()["segment.bytes"] == 1024
    assert list(Sample.defaults()) == list(Sample.keys())


@dataclass(frozen=True, kw_only=True)
class Open(Config):
    """A key that may be left open."""

    limit: int | None = key("limit", None, low=1, doc="Another key counts where it is not set.")


def test_a_key_may_be_left_open() -> None:
    """By None, or by the empty text, which is how None is written; a value is checked as always."""
    assert Open().limit is Open.of({"limit": text_of(None)}).limit is None
    assert Open.of({"limit": "5"}).limit == 5
    for wrong in ("0", "x", "1.5"):
        with pytest.raises(ConfigError, match="limit"):
            Open.of({"limit": wrong})


@dataclass(frozen=True, kw_only=True)
class Secretive(Config):
    password: str = key("password", "", doc="d", choices=("", "s3cr3t"), sensitive=True)
    pin: int = key("pin", 0, low=0, doc="d", sensitive=True)


@pytest.mark.parametrize("values", [{"password": "hunter2"}, {"pin": "hunter2"}, {"pin": -4711}])
def test_a_sensitive_value_is_in_no_error_and_no_repr(values) -> None:
    """Neither in the error, nor in its causes and contexts."""
    with pytest.raises(ConfigError, match="sensitive") as caught:
        Secretive.of(values)
    error: BaseException | None = caught.value
    while error is not None:  # an exception that pytest is handling is part of the chain
        assert not any(str(value) in repr(error) for value in values.values())
        error = error.__cause__ or error.__context__
    assert "s3cr3t" not in repr(Secretive(password="s3cr3t"))
    assert Secretive.keys()["password"].is_sensitive


def test_types_by_name() -> None:
    """What descriptions tell of each key."""
    assert Secretive.types() == {"password": str, "pin": int}
