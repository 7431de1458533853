"""The table of docs/STREAMS.md that gives the name of each operator of Kafka Streams."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from typing import TYPE_CHECKING

import pages
from headrace import stream

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = ("dsl.builder", "dsl.kstream", "dsl.ktable", "dsl.grouped", "app_io", "topology.topology")
# Java's names of FEATURES 1.13, as they stand in the first column
OPERATORS = re.findall(
    r"\w+",
    """
    filter filterNot map mapValues flatMap flatMapValues selectKey foreach peek print merge split branch
    defaultBranch groupBy groupByKey repartition to toTable process processValues transformValues toStream
    suppress join leftJoin outerJoin count reduce aggregate cogroup windowedBy emitStrategy globalTable
    addGlobalStore addStateStore describe cleanUp TopologyTestDriver MockProcessorContext
    """,
)


@cache
def rows() -> list[tuple[str, str]]:
    """The first two columns."""
    section = pages.text_of("docs/STREAMS.md").split("## From Kafka Streams\n")[1].split("\n## ")[0]
    lines = [line.strip("| \n").split("|") for line in section.splitlines() if line.startswith("| ")][2:]
    return [(line[0].strip(), line[1]) for line in lines]


def classes() -> Iterator[type]:
    """The classes whose methods users call."""
    for name in MODULES:
        module = importlib.import_module(f"headrace.stream.{name}")
        for found in vars(module).values():
            if inspect.isclass(found) and found.__module__ == module.__name__ and found.__name__[0] != "_":
                yield found


def named() -> set[str]:
    """The names in the second column."""
    return {name for _, column in rows() for name in re.findall(r"`([^`]+)`", column)}


def test_each_public_method_is_in_the_table() -> None:
    """Inherited ones too, but those of a builder are named once."""
    missing = [
        f"{each.__name__}.{name}"
        for each in classes()
        for name, member in inspect.getmembers(each)
        if name[0] != "_"
        and (callable(member) or isinstance(member, property))
        and not (
            each is not stream.Builder and hasattr(stream.Builder, name) and issubclass(each, stream.Builder)
        )
    ]
    assert sorted(set(missing) - named()) == []


def test_each_name_in_the_table_exists() -> None:
    """`stream.x` in headrace.stream, others by their class."""
    owners = {"stream": stream, **{each.__name__: each for each in classes()}}
    for name in sorted(named()):
        owner, _, member = name.partition(".")
        assert hasattr(owners[owner], member or "__init__"), name


def test_each_operator_of_java_has_a_row() -> None:
    """Words of the first column."""
    words = {word for column, _ in rows() for word in re.findall(r"\w+", column)}
    assert sorted(set(OPERATORS) - words) == []
