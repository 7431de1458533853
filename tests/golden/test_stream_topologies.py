"""Topologies have the descriptions that Kafka Streams gives them.

`kafka_stream_topologies.txt` has applications, each as a case of tests/oracle/streams, followed by
what `Topology.describe` of Kafka Streams 4.3.1 says. To write the texts again:
`python -m tests.golden.test_stream_topologies`, which runs Java.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headrace.stream import Builder

from tests.oracle.streams.building import Building
from tests.oracle.streams.cases import Case

FILE = Path(__file__).with_name("kafka_stream_topologies.txt")
# Java prints the class of a function, which Python has not.
FUNCTION = re.compile(r"\(extractor class: .*\)")


def applications() -> Iterator[tuple[Case, str]]:
    """Cases and descriptions."""
    for block in FILE.read_text().split("\f\n"):
        head, _, text = block.partition("\n")
        yield {"config": {}, "events": [], **json.loads(head)}, text


def described(case: Case) -> str:
    """Our text for a case."""
    app = Builder(optimization=case["config"].get("topology.optimization", "none"))
    Building(app, [], {}).build(case)
    return app.describe()


@pytest.mark.parametrize(
    ("case", "text"), [pytest.param(case, text, id=str(case["seed"])) for case, text in applications()]
)
def test_descriptions_are_those_of_java(case: dict[str, Any], text: str) -> None:
    """Names, numbers, sub-topologies, stores, and the order of nodes."""
    assert FUNCTION.sub("(a function)", described(case)) == FUNCTION.sub("(a function)", text)


def test_every_operator_is_described() -> None:
    """With and without a name and a store, and by each optimization."""
    cases = [case for case, _ in applications()]
    assert len(cases) >= 40
    operators = {node["op"] for case in cases for node in case["nodes"]}
    assert len(operators) >= 34
    assert {case["config"].get("topology.optimization", "none") for case in cases} >= {"none", "all"}


if __name__ == "__main__":
    from tests.oracle.streams.java_io import JavaStreams

    java = JavaStreams()
    found = [(case, java.result(case)["describe"]) for case, _ in applications()]
    java.close()
    FILE.write_text(
        "\f\n".join(
            f"{json.dumps({name: case[name] for name in ('seed', 'config', 'nodes')})}\n{text}"
            for case, text in found
        )
    )
