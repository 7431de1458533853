"""A case in headrace.stream."""

from __future__ import annotations

import contextlib
import json
import traceback
from typing import Any

from headrace.clients import serdes
from headrace.stream.dsl.builder import Builder
from headrace.stream.records import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from headrace.stream.task.handlers import LogAndContinue, LogAndFail
from headrace.stream.task.settings import TaskSettings
from headrace.stream.testing.driver import TestDriver

from .building import LENIENT, Building
from .cases import Case, Result
from .functions import headers_text, text

START_MS = 1_000
KEYS = ("a", "b", "c", "d", 0, 1, 2, 3)


class Player:
    """Builds one case, gives it its events, and notes what happens."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.result: Result = {"effects": [], "printed": {}}
        self.place = "build"
        self._read: dict[str, int] = {}

    def play(self) -> Result:
        """The result; an error of any kind is a part of it."""
        try:
            self._play()
        except Exception as error:  # noqa: BLE001 - a bug may raise anything; it is compared
            chain = [f"{type(each).__name__}: {each}" for each in _chain(error)]
            trace = traceback.format_exception(error)[-6:]
            self.result["error"] = {"place": self.place, "chain": chain, "trace": trace}
        return self.result

    def _play(self) -> None:
        config = self.case["config"]
        app = Builder(
            optimization=config.get("topology.optimization", "none"),
            persistent="dsl.store.suppliers.class" not in config,
            store_headers=config.get("dsl.store.format") == "headers",
            require_names=config.get("ensure.explicit.internal.resource.naming") == "true",
        )
        Building(app, self.result["effects"], self.result["printed"]).build(self.case)
        self.result["describe"] = app.describe()
        self.place = "start"
        driver = TestDriver(
            app,
            application_id="app",
            settings=_settings(self.case),
            now=START_MS,
            cache_bytes=int(config.get("statestore.cache.max.bytes", 10 * 1024 * 1024)),
        )
        try:
            for event_number, event in enumerate(self.case["events"]):
                self.place = f"event {event_number}"
                self._feed(driver, event)
                self._note(driver, event_number)
            self.place = "close"
            self.result["dropped"] = sum(driver.dropped_records.values())
            times = sorted(
                {max(0, event["timestamp"]) for event in self.case["events"] if "timestamp" in event}
            )
            self.result["stores"] = {name: rows(driver.stores[name], times) for name in sorted(driver.stores)}
            driver.close()
            self._note(driver, len(self.case["events"]))
        except Exception:
            _close_quietly(driver)
            raise

    @staticmethod
    def _feed(driver: TestDriver, event: dict[str, Any]) -> None:
        if "advance_ms" in event:
            driver.advance_wall_clock_time(event["advance_ms"])
            return
        headers = tuple((name, _bytes(value)) for name, value in event.get("headers", ()))
        driver.pipe_bytes(
            event["topic"], _bytes(event["key"]), _bytes(event["value"]), event["timestamp"], headers
        )

    def _note(self, driver: TestDriver, event: int) -> None:
        """What an event gave: per topic its records."""
        for topic in sorted(driver.produced_topic_names):
            produced = driver.producer_records(topic)
            for record in produced[self._read.get(topic, 0) :]:
                headers = [[name, _hex(value)] for name, value in record.headers]
                row = [event, topic, _hex(record.key), _hex(record.value), record.timestamp, headers]
                self.result.setdefault("records", []).append(row)
            self._read[topic] = len(produced)


def result(case: Case) -> Result:
    """What headrace.stream gives for a case."""
    if case.get("hostile"):
        case = case | {"nodes": json.loads(json.dumps(case["nodes"]).replace("string", "lenient"))}
    return Player(case).play()


def _settings(case: Case) -> TaskSettings:
    config, strings = case["config"], LENIENT if case.get("hostile") else serdes.utf8
    facts: dict[str, Any] = {"key_serde": strings, "value_serde": strings}
    facts["handles_global_failures"] = "processing.exception.handler.global.enabled" in config
    for field in ("deserialization", "processing"):
        continues = f"{field}.exception.handler" in config
        handler = LogAndContinue if continues else LogAndFail
        facts[f"{field}_handler"] = handler(config.get("errors.dead.letter.queue.topic.name"))
    return TaskSettings(**facts)


def _close_quietly(driver: TestDriver) -> None:
    with contextlib.suppress(Exception):  # the first error is the one that is reported
        driver.close()


def _chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *_chain(error.__cause__ or error.__context__)]


def _bytes(hex_text: str | None) -> bytes | None:
    return None if hex_text is None else bytes.fromhex(hex_text)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# --- stores ---


def rows(store: Any, times: list[int]) -> list[list[Any]]:
    """The contents of a store in the order of its iterator; java/Dump.java has the same."""
    if hasattr(store, "get_as_of"):
        return [row for key in KEYS for row in _versions(store, key, times)]
    if hasattr(store, "find_sessions"):
        return [row for key in KEYS for row in _sessions(store, key)]
    if hasattr(store, "all"):
        with store.all() as entries:
            return [[shown(key), shown(value)] for key, value in entries]
    return [["unreadable"]]


def _versions(store: Any, key: Any, times: list[int]) -> list[list[Any]]:
    try:
        found = [("latest", store.get(key)), *((str(time), store.get_as_of(key, time)) for time in times)]
    except (TypeError, ValueError, AttributeError, OverflowError):
        return []  # keys of the other type
    # Kafka tells the end of a version only to queries from outside
    return [
        [text(key), as_of, shown(each.value), each.timestamp] for as_of, each in found if each is not None
    ]


def _sessions(store: Any, key: Any) -> list[list[Any]]:
    try:
        with store.find_sessions(key, 0, 2**63 - 1) as entries:
            return [[shown(session), shown(value)] for session, value in entries]
    except (TypeError, ValueError, AttributeError, OverflowError):
        return []  # keys of the other type


def shown(value: Any) -> str:
    """A key or value as text."""
    if isinstance(value, ValueAndTimestamp):
        return f"{shown(value.value)} @{value.timestamp}"
    if isinstance(value, ValueTimestampHeaders):
        return f"{shown(value.value)} @{value.timestamp} {headers_text(value.headers)}"
    if isinstance(value, AggregationWithHeaders):
        return f"{shown(value.aggregation)} {headers_text(value.headers)}"
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, int | str | Windowed):
        return text(value)
    return type(value).__name__
