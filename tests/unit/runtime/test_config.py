"""runtime/config.py: one declaration per key; wrong keys and values fail with a clear word."""

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


def test_text_and_typed_values_are_equal() -> None:
    """Topic configs arrive as text, Python callers pass values."""
    text = Sample.of({"segment.bytes": " 20 ", "switch": "TRUE", "ratio": "0.25", "log.dirs": "/a, /b,"})
    assert text == Sample(segment_bytes=20, is_on=True, ratio=0.25, dirs=("/a", "/b"))


def test_keyword_arguments_override_dotted_names() -> None:
    """`config={"segment.bytes": 20}` and `segment_bytes=30` together: the keyword argument holds."""
    assert Sample.of({"segment.bytes": 20}, segment_bytes=30).segment_bytes == 30


@dataclass(frozen=True, kw_only=True)
class Odd(Config):
    """Defaults that are no values themselves."""

    limit: float = key("limit", 1, doc="Has to become a float.")
    place: str = key("place", None, doc="Has to be given.")


def test_defaults_are_checked_as_values_are() -> None:
    """Also if the default of another object was checked before."""
    assert [repr(Odd(place="p").limit) for _ in range(2)] == ["1.0"] * 2
    for _ in range(2):
        with pytest.raises(ConfigError, match="place must be text"):
            Odd()


def test_unknown_key_suggests_the_nearest() -> None:
    """A typo must not become a silent default."""
    with pytest.raises(ConfigError, match=r"segment\.byte.*did you mean 'segment\.bytes'"):
        Sample.of({"segment.byte": 20})


def test_suggestion_has_the_spelling_of_the_typo() -> None:
    """A keyword argument with dots is not valid Python."""
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
def test_invalid_value_names_key_rule_and_value(name: str, value: object, word: str) -> None:
    with pytest.raises(ConfigError, match=word) as caught:
        Sample.of({name: value})
    assert name in str(caught.value)


def test_nan_is_out_of_range() -> None:
    """It compares false with both bounds."""
    with pytest.raises(ConfigError):
        Sample(ratio=float("nan"))


def test_merge_overrides_only_given_keys() -> None:
    """Topic configs override the node's defaults."""
    base = Sample(segment_bytes=20, mode="fsync")
    assert base.merged({"segment.bytes": "40"}) == Sample(segment_bytes=40, mode="fsync")


def test_text_of_a_config_can_be_parsed() -> None:
    """The output of `describe` can be set again."""
    sample = Sample(segment_bytes=20, is_on=True, dirs=("/a", "/b"))
    assert Sample.of({name: text_of(value) for name, value in sample.to_mapping().items()}) == sample


def test_defaults_need_no_valid_instance() -> None:
    """The reference page shows defaults of configs with required keys."""
    assert Sample.defaults()["segment.bytes"] == 1024
    assert list(Sample.defaults()) == list(Sample.keys())


@dataclass(frozen=True, kw_only=True)
class Open(Config):
    """A key that may be left open."""

    limit: int | None = key("limit", None, low=1, doc="Another key counts where it is not set.")


def test_optional_key_may_be_empty() -> None:
    """None, and the empty text, which is how None is written; other values are checked."""
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
def test_sensitive_value_is_in_no_error_and_no_repr(values) -> None:
    """Nor in causes and contexts of the error."""
    with pytest.raises(ConfigError, match="sensitive") as caught:
        Secretive.of(values)
    error: BaseException | None = caught.value
    while error is not None:  # an exception that pytest is handling is part of the chain
        assert not any(str(value) in repr(error) for value in values.values())
        error = error.__cause__ or error.__context__
    assert "s3cr3t" not in repr(Secretive(password="s3cr3t"))
    assert Secretive.keys()["password"].is_sensitive


def test_types_have_kafkas_names() -> None:
    assert Secretive.types() == {"password": str, "pin": int}


def test_a_dotted_name_may_have_underscores() -> None:
    """Also where the field has another name."""
    assert Sample.of(log_dirs=("/a",)) == Sample.of({"log_dirs": ("/a",)}) == Sample(dirs=("/a",))
