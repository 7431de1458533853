"""The harness of `make oracle`: differences, normalized values, the tap, and the page."""

import struct
import subprocess
import sys
from pathlib import Path

import kafka_oracle
import pytest
from beside.comparing import Difference, Known, count, differences, read_known, unexplained
from beside.normal import Normal
from beside.page import Api, outdated, page, spans
from beside.playing_io import Outcome
from beside.scene import Scenario
from beside.tap_io import Requests
from beside.wire import KEYS, frame, parsed, versions_of

NOW = 1_700_000_000_000
RUN = Path(__file__).with_name("run.py")


def test_differences_are_the_innermost_ones() -> None:
    """A nested value, an absent one, lists of different lengths, different types."""
    kafka = {"a": [{"b": 1, "c": "x"}], "gone": None, "list": [1, 2], "flag": True, "same": 5}
    headrace = {"a": [{"b": 2, "c": "x"}], "list": [1], "flag": 1, "same": 5, "more": 0}
    assert list(differences("s", kafka, headrace)) == [
        Difference("s/a/0/b", 1, 2),
        Difference("s/gone", None, "(absent)"),
        Difference("s/list", [1, 2], [1]),
        Difference("s/flag", True, 1),
        Difference("s/more", "(absent)", 0),
    ]
    assert list(differences("s", kafka, kafka)) == []
    assert count(kafka) == 7


def test_known_difference_matches_its_place_and_values_only() -> None:
    """Other values at the same place are another difference; an entry keeps its matches."""
    known = read_known(
        '[[difference]]\nplace = "raw/*/error_code"\nreason = "why"\n'
        'kafka = "NONE"\nheadrace = "UNSUPPORTED*"'
    )
    meant = Difference("raw/x/topics/0/error_code", "NONE", "UNSUPPORTED_VERSION")
    other_value = Difference("raw/x/topics/0/error_code", "NONE", "UNKNOWN")
    other_place = Difference("raw/x/topics/0/name", "NONE", "UNSUPPORTED_VERSION")
    assert unexplained([meant, other_value, other_place], known) == [other_value, other_place]
    assert known[0].matched == [meant]
    with pytest.raises(TypeError):
        read_known('[[difference]]\nplace = "raw/*"')


def test_random_values_get_names() -> None:
    """Ids by first occurrence, always the same name for an id; ports, paths, times; no other values."""
    normal = Normal(ports={9092: "broker"}, paths={"/tmp/x/data": "log dir"}, now_ms=NOW)
    first, second = "0d5c8e9a-6b0f-4a4e-9f43-0123456789ab", "moWikkl-R7CLix4OGg3tHQ"
    found = normal.of(
        {
            "member": f"client-{first}",
            "again": first,
            "topic": f"TopicId: {second}",
            "at": "127.0.0.1:9092 and localhost:9092",
            "port": 9092,
            "time": NOW + 5,
            "line": f"CreateTime:{NOW}",
            "path": "/tmp/x/data/t-0",
            "producer_id": 1000,
            "no": {"producer_id": -1, "zero": "00000000-0000-0000-0000-000000000000"},
            "error_message": "a text for people",
            "topics": [{"name": "b", "n": 1}, {"name": "a", "n": 2}],
            "kept": [1, 90921, "InvalidTopicNameException", "java-tools-kafka-topics", True, None, b"\xff"],
        }
    )
    assert found == {
        "member": "client-<id 1>",
        "again": "<id 1>",
        "topic": "TopicId: <id 2>",
        "at": "<broker> and <broker>",
        "port": "<broker>",
        "time": "<now>",
        "line": "CreateTime:<now>",
        "path": "<log dir>/t-0",
        "producer_id": "<producer 3>",
        "no": {"producer_id": -1, "zero": "0"},
        "error_message": "<text>",
        "topics": [{"name": "a", "n": 2}, {"name": "b", "n": 1}],
        "kept": [1, 90921, "InvalidTopicNameException", "java-tools-kafka-topics", True, None, "\\xff"],
    }


def test_tap_parses_each_request_of_a_stream_in_any_chunks() -> None:
    """At once, byte by byte, and with a request whose size is smaller than its header."""
    stream = frame("metadata", 9, {"topics": [{"name": "t"}]}) + frame("api_versions", 3, {})
    stream += struct.pack(">ihh", 2, 1, 4)
    expected = [(3, 9), (18, 3), (1, 4)]
    assert Requests().found(stream) == expected
    requests = Requests()
    assert [head for byte in stream for head in requests.found(bytes([byte]))] == expected


def test_every_api_and_version_can_be_encoded() -> None:
    """With defaults only; and a response is decoded to its last byte."""
    for api in KEYS:
        for version in versions_of(api):
            made = frame(api, version, {})
            assert struct.unpack_from(">ihh", made) == (len(made) - 4, KEYS[api], version)
    answer = struct.pack(">ihihhhi", 7, 0, 1, 18, 0, 4, 5)
    assert parsed("api_versions", 1, answer)["api_keys"] == [
        {"api_key": 18, "min_version": 0, "max_version": 4}
    ]
    assert parsed("api_versions", 1, answer + b"xy")["bytes behind the answer"] == 2


def test_page_has_apis_scenarios_and_reasons() -> None:
    """A row for each; `-` for APIs that are not served; ranges of versions."""
    scenario = Scenario("kcat", "reads", lambda _: None)
    difference = Difference("kcat/reads/x", "a|b", "c")
    outcome = Outcome(scenario, values=1234, differences=(difference,))
    known = [Known("kcat/*", "a reason", matched=[difference, difference]), Known("none", "unused")]
    apis = [Api(3, "metadata", (0, 13), (0, 12)), Api(80, "add_raft_voter", (0, 1), None)]
    text = page("4.1.0", "oracle: ok", apis, {(3, 4): {"kcat"}, (3, 5): {"kcat", "raw"}}, [outcome], known)
    assert "| 3 | metadata | 0-13 | 0-12 | 4-5 |\n" in text
    assert "| 80 | add_raft_voter | 0-1 | - |  |\n" in text
    assert "| kcat | reads | 1,234 | 1 |\n" in text
    assert "| `kcat/reads/x` and 1 more: `kcat/*` | `a\\|b` | `c` | a reason |\n" in text
    assert "unused" not in text
    assert spans([5, 0, 1, 3, 2]) == "0-3, 5"


def test_short_run_finds_outdated_parts_of_the_page() -> None:
    """Counts of differences, scenarios, versions and reasons; nothing else."""
    scenarios = [
        Scenario("raw", title, lambda _: None) for title in ("differs", "is the same", "is not played")
    ]
    names = [each.name for each in scenarios]
    difference = Difference("raw/differs/x", 1, 2)
    outcomes = [Outcome(each, values=9) for each in scenarios]
    outcomes[0].differences = (difference, difference)
    known, apis = [Known("raw/*", "a reason", matched=[difference])], [Api(3, "metadata", (0, 13), (0, 12))]
    text = page("4.1.0", "oracle: ok", apis, {}, outcomes, known)
    # a client that is not installed here does not make the page wrong
    text += "| kcat | reads | 1,234 | 1 |\n"
    assert outdated(text, apis, outcomes[:2], known, names) == []
    fewer = [Outcome(scenarios[0], differences=(difference,)), Outcome(scenarios[1])]
    assert outdated(text, apis, fewer, known, names) == ["raw/differs differs in 1 places, not in 2"]
    more = [Outcome(scenarios[1], differences=(difference,))]
    assert outdated(text, apis, more, known, names) == ["raw/is the same differs in 1 places, not in none"]
    assert outdated(text, apis, [], known, [*names, "raw/new"]) == ["it misses raw/new"]
    assert outdated(text, apis, [], known, names[:2]) == ["there is no raw/is not played"]
    newer = [apis[0]._replace(headrace=(0, 13))]
    assert outdated(text, newer, [], known, names) == ["it misses | 3 | metadata | 0-13 | 0-13 |"]
    other = [Known("raw/*", "another reason")]
    assert outdated(text, apis, [], other, names) == ["it misses the reason: another reason"]


def compared_with(against: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a short run; two Apache Kafkas take ten seconds to start."""
    kafka_oracle.require()
    command = [sys.executable, str(RUN), "--against", against, "--only", "raw/topics in*"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.oracle
def test_planted_difference_is_found_and_nothing_else() -> None:
    """One of two Kafkas has another configuration, which the scenario reads; the exit code is 1."""
    status, lines = compared_with("planted")
    assert status == 1
    assert lines[-1].startswith("oracle: FAILED: 1 scenario"), lines
    places = [line for line in lines if line.startswith("    raw/")]
    assert places
    assert [place for place in places if "/max.message.bytes/" not in place] == []
    assert "        headrace: 100000" in lines


@pytest.mark.oracle
def test_two_equal_kafkas_do_not_differ() -> None:
    """The exit code is 0."""
    status, lines = compared_with("kafka")
    assert status == 0
    assert lines[-1].startswith("oracle: ok: 1 scenario"), lines
