"""The import graph of the package has no circles."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from source_trees import statements

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "protocol",
    "runtime",
    "storage_node",
    "controller",
    "coordinators",
    "clients",
    "services",
    "benchmarks",
    "stream",
)

Graph = dict[str, set[str]]


def module_files() -> dict[str, Path]:
    """Module name, relative to the package, to file; a folder's name stands for its __init__.py."""
    files: dict[str, Path] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imported(node: ast.ImportFrom, module: str, path: Path, files: dict[str, Path]) -> set[str]:
    """The modules of the package that a relative import names."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    base = package[: len(package) - (node.level - 1)]
    base += node.module.split(".") if node.module else []
    names = [".".join([*base, alias.name]) for alias in node.names]
    return {name if name in files else ".".join(base) for name in names}.intersection(files) - {module}


@functools.cache
def import_graphs() -> tuple[Graph, Graph]:
    """What each module imports, inside functions too: at run time, and with imports under TYPE_CHECKING."""
    files = module_files()
    graphs: tuple[Graph, Graph] = {}, {}
    for module, path in files.items():
        tree = ast.parse(path.read_text())
        for graph, with_types in zip(graphs, (False, True), strict=True):
            graph[module] = set()
            for node in statements(tree, with_types=with_types):
                if isinstance(node, ast.ImportFrom) and node.level:
                    graph[module] |= imported(node, module, path, files)
    return graphs


def circles(graph: Graph) -> set[frozenset[str]]:
    """The strongly connected components of more than one module (Kosaraju's algorithm)."""
    importers: Graph = {module: set() for module in graph}
    for module, targets in graph.items():
        for target in targets:
            importers[target].add(module)
    finished: dict[str, None] = {}
    for module in graph:
        _visit(module, graph, set(finished), finished)
    found: set[frozenset[str]] = set()
    assigned: set[str] = set()
    for module in reversed(finished):
        component: dict[str, None] = {}
        _visit(module, importers, assigned, component)
        assigned |= component.keys()
        if len(component) > 1:
            found.add(frozenset(component))
    return found


def _visit(start: str, graph: Graph, seen: set[str], finished: dict[str, None]) -> None:
    """Depth first from `start`; modules are added to `finished` once all that they reach are."""
    if start in seen:
        return
    seen.add(start)
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        module, targets = stack[-1]
        target = next((each for each in targets if each not in seen), None)
        if target is None:
            stack.pop()
            finished[module] = None
        else:
            seen.add(target)
            stack.append((target, iter(sorted(graph[target]))))


# The classes that users chain: each operator of one returns another one, whose type it names.
FLUENT = frozenset({"stream.dsl.grouped", "stream.dsl.kstream", "stream.dsl.ktable"})


def is_parent_and_child(circle: frozenset[str], run_time: Graph) -> bool:
    """Whether one of two modules builds the other's objects, which know the type of their owner."""
    return len(circle) == 2 and any(run_time[module] & circle for module in circle)


def test_no_circle_at_run_time() -> None:
    """Neither at load nor in an import inside a function."""
    run_time, _ = import_graphs()
    assert circles(run_time) == set()


def test_no_circle_of_types_but_of_parent_and_child() -> None:
    """Modules that know each other's types are one module in several files, or lack a Protocol. The classes
    of a stream topology are one: together they would be 800 lines."""
    run_time, with_types = import_graphs()
    found = circles(with_types) - {FLUENT}
    assert {circle for circle in found if not is_parent_and_child(circle, run_time)} == set()


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, {frozenset("abc")}),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}, {frozenset("ab"), frozenset("cd")}),
    ],
)
def test_circles_are_strongly_connected_components(graph: Graph, expected: set[frozenset[str]]) -> None:
    """A chain has none; modules that only lead into a circle are not part of it."""
    assert circles(graph) == expected
