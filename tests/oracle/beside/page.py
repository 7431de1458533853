"""docs/COMPATIBILITY.md, written from one run: API versions, scenarios and differences."""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from .comparing import Known, shown
from .playing_io import Outcome

HEAD = """\
# Compatibility with Apache Kafka

`make oracle` runs Apache Kafka {version} and headrace side by side, with one or three nodes each, sends the
same requests to both, and compares responses, error codes and the logs on disk. The run writes this page.

{result}

"""
API_HEAD = """\
## APIs

The versions that each system advertises, and the versions that each client sent to headrace in the scenarios
below. The client `raw` sends requests made by hand, in every version.

"""
SCENARIO_HEAD = """\
## Scenarios

"""
DIFFERENCE_HEAD = """\
## Differences

The differences that cannot harm a Kafka client, each with its reason, from tests/oracle/differences.toml. The
run fails on a difference that is not listed there, and on an entry that matches no difference.

"""
# client, title, count of differences
_SCENARIO = re.compile(r"^\| ([^|]+) \| ([^|]+) \| [\d,]+ \| (\d+|none) \|$", re.MULTILINE)


class Api(NamedTuple):
    """An API: the lowest and highest version of Kafka and of headrace, None where it is not served."""

    key: int
    name: str
    kafka: tuple[int, int] | None
    headrace: tuple[int, int] | None


def page(
    version: str,
    result: str,
    apis: Iterable[Api],
    seen: Mapping[tuple[int, int], Collection[str]],
    outcomes: list[Outcome],
    known: list[Known],
) -> str:
    """The text of the whole page."""
    parts = [HEAD.format(version=version, result=result), API_HEAD, *_apis(list(apis), seen, outcomes)]
    parts += ["\n", SCENARIO_HEAD, *_scenarios(outcomes), "\n", DIFFERENCE_HEAD, *_differences(known)]
    return "".join(parts)


def spans(numbers: Iterable[int]) -> str:
    """Numbers as ranges: 0-3, 5."""
    groups = [
        [number for _, number in group]
        for _, group in groupby(enumerate(sorted(set(numbers))), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{each[0]}" if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in groups)


def outdated(
    text: str, apis: Iterable[Api], outcomes: list[Outcome], known: list[Known], names: Collection[str]
) -> list[str]:
    """Where `text`, the page of an earlier run, disagrees with a run of some scenarios; `names` are all
    scenarios whose clients are installed.

    Each scenario's count of differences is compared with the page's, so that a difference which appears or
    disappears behind the pattern of another one is found as well.
    """
    counts = {f"{row[1]}/{row[2]}": row[3] for row in _SCENARIO.finditer(text)}
    clients = {name.split("/")[0] for name in names}
    wrong = [f"it misses {name}" for name in names if name not in counts]
    gone = [name for name in counts if name not in names and name.split("/")[0] in clients]
    wrong += [f"there is no {name}" for name in gone]
    for outcome in outcomes:
        name, found = outcome.scenario.name, str(len(outcome.differences) or "none")
        if counts.get(name, found) != found:
            wrong.append(f"{name} differs in {found} places, not in {counts[name]}")
    wrong += [f"it misses {row}" for row in map(_versions_of, apis) if f"\n{row}" not in text]
    wrong += [f"it misses the reason: {each.reason}" for each in known if each.reason not in text]
    return wrong


def _versions_of(api: Api) -> str:
    """The first cells of an API's row: key, name, and the versions of both systems."""
    ranges = (
        "-" if each is None else spans(range(each[0], each[1] + 1)) for each in (api.kafka, api.headrace)
    )
    return f"| {api.key} | {api.name} | {' | '.join(ranges)} |"


def _apis(
    apis: list[Api], seen: Mapping[tuple[int, int], Collection[str]], outcomes: list[Outcome]
) -> list[str]:
    clients = list(dict.fromkeys(outcome.scenario.client for outcome in outcomes))
    rows = [f"| key | API | Kafka | headrace | {' | '.join(clients)} |\n"]
    rows.append("| --- " * (4 + len(clients)) + "|\n")
    for api in apis:
        cells = []
        served = range(0) if api.headrace is None else range(api.headrace[0], api.headrace[1] + 1)
        for client in clients:
            cells.append(
                spans(
                    version
                    for (key, version), senders in seen.items()
                    if key == api.key and version in served and client in senders
                )
            )
        rows.append(f"{_versions_of(api)} {' | '.join(cells)} |\n")
    return rows


def _scenarios(outcomes: list[Outcome]) -> list[str]:
    rows = ["| client | scenario | values compared | differences |\n", "| --- | --- | --- | --- |\n"]
    for outcome in outcomes:
        scenario, found = outcome.scenario, len(outcome.differences)
        rows.append(f"| {scenario.client} | {scenario.title} | {outcome.values:,} | {found or 'none'} |\n")
    return rows


def _differences(known: list[Known]) -> list[str]:
    rows = ["| where | Kafka | headrace | reason |\n", "| --- | --- | --- | --- |\n"]
    for each in known:
        if not each.matched:
            continue
        first, more = each.matched[0], len(each.matched) - 1
        where = f"`{first.place}`" + (f" and {more} more: `{each.place}`" if more else "")
        cells = [where, *(f"`{_cell(value)}`" for value in (first.kafka, first.headrace)), each.reason]
        rows.append(f"| {' | '.join(cells)} |\n")
    return rows


def _cell(value: object) -> str:
    return shown(value).replace("|", "\\|").replace("`", "'")
