"""What is compared of two results, and what it is called."""

from __future__ import annotations

import re
from typing import Any

from beside.comparing import Difference, Known, differences, unexplained

from .cases import Case, Result

DEAD_LETTERS = "dlq"
UNREADABLE = [["unreadable"]]
# Kafka's stores of joins have the interface with timestamps and headers, whatever they store
OF_JOINS = r"^(KSTREAM-(JOIN|OUTER)|KTABLE-FK-JOIN-SUBSCRIPTION|join)|-(join|subscription)-store$"
HEADERS = r" \[[^]]*\]$"
TIMESTAMP = rf" @-?\d+({HEADERS[:-1]})?$"


def _by_event(case: Case, rows: list[list[Any]], end: int) -> dict[str, Any]:
    """Records before event `end`: event -> topic -> rows.

    A buffer of suppress writes its changelog in the order of a hash set in Kafka: here in that of the keys.
    """
    made: dict[str, Any] = {}
    names = {node["name"] for node in case["nodes"] if node["op"] == "suppress" and "name" in node}
    buffers = ("app-KTABLE-SUPPRESS-STATE-STORE-", *(f"app-{name}-store-changelog" for name in names))
    for event, topic, *rest in rows:
        if event < end:
            if topic == DEAD_LETTERS:  # class, text and trace of an error are those of the language
                rest[-1] = [name for name, _ in rest[-1]]
            made.setdefault(f"event {event}", {}).setdefault(topic, []).append(rest)
    for topics in made.values():
        for topic, written in topics.items():
            if topic.startswith(buffers):
                written.sort(key=lambda row: row[0])
    return made


def described(result: Result) -> list[str]:
    """The lines of the topology; the class of a function is that of the language."""
    return re.sub(r"extractor class: [^)]*", "extractor", result.get("describe", "")).splitlines()


def comparable(case: Case, result: Result) -> dict[str, Any]:
    """A result as nested values. After an error: what came before it."""
    place = result.get("error", {}).get("place", "")
    end = len(case["events"]) + 1
    if place.startswith("event"):
        end = int(place.split()[1])
    made: dict[str, Any] = {"error": place, "describe": described(result)}
    if place in {"build", "start"}:
        return made if place == "start" else {"error": place}
    made["records"] = _by_event(case, result.get("records", []), end)
    if not place:
        made["stores"] = dict(result.get("stores", {}))
        made["dropped"] = int(result.get("dropped", 0))
        made["effects"] = result.get("effects", [])
        made["printed"] = result.get("printed", {})
    return made


def compare(case: Case, java: Result, ours: Result, known: list[Known]) -> list[Difference]:
    """The differences that no entry of differences.toml explains."""
    one, other = comparable(case, java), comparable(case, ours)
    if one["error"] != other["error"]:
        return unexplained([Difference("error", _shown(java), _shown(ours))], known)
    for name, rows in list(one.get("stores", {}).items()):
        for hidden in (HEADERS, TIMESTAMP) if re.search(OF_JOINS, name) else ():
            if (bare := _without(hidden, rows)) == other["stores"].get(name):
                one["stores"][name] = bare
        if UNREADABLE in (rows, other["stores"].get(name)):
            del one["stores"][name]
            other["stores"].pop(name, None)
    return unexplained(list(differences("", one, other)), known)


def _shown(result: Result) -> str:
    error = result.get("error")
    return "(none)" if error is None else f"{error['place']}: {' <- '.join(error['chain'])}"


def _without(hidden: str, rows: list[list[Any]]) -> list[list[Any]]:
    return [[re.sub(hidden, "", cell) if isinstance(cell, str) else cell for cell in row] for row in rows]


def has_output(result: Result) -> bool:
    """Whether a sink got a record."""
    return any(topic.startswith("out") for _, topic, *_ in result.get("records", ()))
