"""Levels of Python's loggers under Kafka's names."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from headrace.storage_node.configs.logger_levels_io import ProcessLoggers

NAME = "headrace.test_logger_levels"


@pytest.fixture(autouse=True)
def _levels_are_restored() -> Iterator[None]:
    logger, root = logging.getLogger(NAME), logging.root.level
    yield
    logger.setLevel(logging.NOTSET)
    logging.root.setLevel(root)


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_levels_round_trip(level: str) -> None:
    """Of a logger and of the root; a logger without a level shows its parent's."""
    loggers = ProcessLoggers()
    loggers.set_level(NAME, level)
    assert loggers.levels()[NAME] == level
    loggers.set_level("root", "FATAL")
    assert loggers.levels()["root"] == "FATAL"
    loggers.set_level(NAME, None)
    assert loggers.levels()[NAME] == loggers.levels().get("headrace", "FATAL")


def test_listing_while_other_threads_create_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new logger changes the table of loggers while it is read."""

    class Name(str):
        __slots__ = ()

        def split(self, *_args: Any) -> list[str]:
            logging.getLogger(f"application.{len(logging.root.manager.loggerDict)}")
            return ["headrace"]

    table = {Name("headrace.one"): logging.getLogger("headrace.one")}
    monkeypatch.setattr(logging.root.manager, "loggerDict", table)
    assert ProcessLoggers().levels().keys() == {"root", "headrace.one"}
    assert len(table) > 1


def test_only_the_root_and_headraces_loggers_are_listed() -> None:
    """An application around `local()` has loggers of its own."""
    logging.getLogger("application.of.the.user")
    names = ProcessLoggers().levels().keys()
    assert {name.split(".")[0] for name in names} == {"root", "headrace"}


@pytest.mark.parametrize(("number", "level"), [(1, "TRACE"), (15, "DEBUG"), (25, "INFO"), (60, "FATAL")])
def test_other_levels_are_shown_as_the_next_lower(number: int, level: str) -> None:
    """Python's levels are any numbers."""
    logging.getLogger(NAME).setLevel(number)
    assert ProcessLoggers().levels()[NAME] == level
