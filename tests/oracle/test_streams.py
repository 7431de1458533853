"""The harness of `make oracle-streams`: cases by seed, comparison, reduction, a few in Kafka Streams."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import kafka_oracle
import pytest
from beside.comparing import Known, read_known
from streams import cases, ours
from streams.building import KINDS
from streams.cases import Case, Result, inputs, printed
from streams.comparing import comparable, compare, has_output
from streams.generating import generate
from streams.java_io import JavaStreams
from streams.operators import PAIRS
from streams.planted import BUGS, Planted
from streams.shrinking import shrink, without
from streams.stream_operators import BEHAVIOURS

SUPPLIERS = {"memory", "persistent", "timestamped", "lru", "versioned", "headers"}
# words of the tables of cases.py
OF_NO_OPERATOR = {"op", "of", "two", "streams", "tables", "with", "a", "global"}
# of each planted bug
CASES = 120
RESULT = {
    "describe": "Topologies:\n",
    "records": [[0, "out", "61", "62", 5, []], [1, "out", "61", None, 6, [["h", "00"]]]],
    "stores": {"s": [["a", "b"]]},
    "dropped": 0,
    "effects": [],
}
KNOWN = read_known((Path(__file__).parent / "streams" / "differences.toml").read_text())
# of Kafka Streams, by seed
RESULTS: dict[int, Result] = {}
CASE: Case = {"config": {}, "nodes": [], "events": [{"advance_ms": 1}, {"advance_ms": 1}]}


@pytest.fixture(scope="module")
def java() -> Iterator[JavaStreams]:
    """Kafka Streams in a JVM."""
    kafka_oracle.require()
    with closing(JavaStreams()) as made:
        yield made


def test_a_seed_gives_the_same_case_each_time() -> None:
    """And it can be printed as JSON."""
    assert generate(5) == generate(5) != generate(6)
    assert json.loads(printed(generate(5))) == generate(5)


def test_seeds_cover_all_pairs_of_operators() -> None:
    """Each pair once within as many seeds as there are pairs; the operators of a pair are in their case."""
    seen = Counter(tuple(generate(seed)["pair"]) for seed in range(len(PAIRS)))
    assert set(seen) == set(PAIRS)
    assert max(seen.values()) == 1


def test_all_operators_of_the_language_occur() -> None:
    """Those of the tables of cases.py, and each processor; so do the kinds and suppliers of stores."""
    rows = re.findall(r"^\| ([^|]+) \|", cases.__doc__ or "", re.M)
    named = {name for row in rows for name in re.findall(r"\w+", re.sub(r"\(.*\)", "", row))}
    nodes = [node for seed in range(len(PAIRS)) for node in generate(seed)["nodes"]]
    assert {node["op"] for node in nodes} == named - OF_NO_OPERATOR
    assert {node["processor"] for node in nodes if "processor" in node} == {*BEHAVIOURS, "lookup", "child"}
    stores = [store for node in nodes for store in (node.get("store"), node.get("uses")) if store]
    assert {store["kind"] for store in stores if "kind" in store} == set(KINDS)
    assert {store["supplier"] for store in stores if "supplier" in store} == SUPPLIERS


def test_nodes_read_only_earlier_nodes() -> None:
    """Otherwise Kafka Streams could not build the topology either."""
    for seed in range(200):
        built: set[str] = set()
        for node in generate(seed)["nodes"]:
            assert {source.split(".")[0] for source in inputs(node)} <= built
            built.add(node["id"])


@pytest.mark.parametrize(
    ("part", "value", "place"),
    [
        ("records", [RESULT["records"][0]], "/records/event 1"),
        ("records", [[0, "out", "61", "62", 4, []], RESULT["records"][1]], "/records/event 0"),
        ("stores", {"s": [["a", "c"]]}, "/stores/s/0/1"),
        ("dropped", 1, "/dropped"),
        ("effects", ["n1: a=b"], "/effects"),
        ("describe", "Topologies:\n x", "/describe"),
        ("error", {"place": "event 1", "chain": ["X"]}, "error"),
    ],
)
def test_each_part_of_a_result_is_compared(part: str, value: object, place: str) -> None:
    """A difference in one part is found there, unless it is known."""
    other = RESULT | {part: value}
    found = compare(CASE, RESULT, other, [])
    assert [difference.place for difference in found if difference.place.startswith(place)]
    assert not compare(CASE, RESULT, RESULT, [])
    assert not compare(CASE, RESULT, other, [Known("*", "a reason")])


def test_results_of_a_failed_event_are_not_compared() -> None:
    """What an event gave until it failed is not defined."""
    failed = RESULT | {"error": {"place": "event 1", "chain": []}}
    assert not compare(CASE, failed, failed | {"records": RESULT["records"][:1], "stores": {}}, [])
    assert compare(CASE, failed, failed | {"records": []}, [])


def test_cases_are_reduced_to_the_differing_part() -> None:
    """Nodes, events and fields that do not matter are gone."""
    case = generate(7)
    culprit = case["nodes"][0]["id"]

    def differs(smaller: Case) -> bool:
        return len(smaller["events"]) > 1 and any(node["id"] == culprit for node in smaller["nodes"])

    small = shrink(case, differs)
    assert [node["id"] for node in small["nodes"]] == [culprit]
    assert len(small["events"]) == 2
    assert small["config"] == {}


def test_removed_node_takes_its_readers_and_topics_with_it() -> None:
    """A case without a source has no events for it."""
    case = generate(7)
    assert without(case, case["nodes"][0]["id"]) is None or all(
        case["nodes"][0]["id"] not in inputs(node) for node in without(case, case["nodes"][0]["id"])["nodes"]
    )


def test_kafka_streams_gives_the_same_each_time(java: JavaStreams) -> None:
    """In one JVM, case after case; most have output."""
    cases = [generate(seed) for seed in range(1, 13)]
    results = list(java.results(cases))
    again = list(java.results(cases))
    assert list(map(comparable, cases, results)) == list(map(comparable, cases, again))
    assert sum(map(has_output, results)) > len(cases) / 2


def shows(java: JavaStreams, bug: Planted, case: Case) -> bool:
    """Whether the two programs differ in a case because of a bug."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        is_different = differs(java, case)
    return is_different and not differs(java, case)


def differs(java: JavaStreams, case: Case) -> bool:
    """Whether the two programs differ in a case."""
    if case["seed"] not in RESULTS:  # bugs have cases in common
        RESULTS[case["seed"]] = java.result(case)
    return bool(compare(case, RESULTS[case["seed"]], ours.result(case), KNOWN))


@pytest.mark.parametrize("name", BUGS)
def test_the_oracle_finds_a_planted_bug(name: str, java: JavaStreams) -> None:
    """Within the first cases that it concerns."""
    bug = BUGS[name]
    assert any(shows(java, bug, case) for case in itertools.islice(bug.cases(), CASES))
