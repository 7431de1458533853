"""Descriptions of stores."""

from headrace.stream.state.builders import StoreBuilder


def test_logging_and_caching_are_switched_on_copies() -> None:
    """A builder is immutable."""
    builder = StoreBuilder("store", is_cached=True)
    logged = builder.with_logging({"retention.ms": "1"})
    assert logged.changelog_config == {"retention.ms": "1"}
    assert logged.without_logging().changelog_config == {}
    assert not builder.with_caching(False).is_cached
    assert builder.is_logged
