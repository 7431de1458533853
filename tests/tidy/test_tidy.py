"""The house rules that no other tool checks: purity by name, sizes, docstrings, sleeps, skips, packages."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from source_trees import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Findings = dict[Callable[[Path, list[ast.AST]], Iterator[str]], list[str]]

ROOT = Path(__file__).parents[2]
PACKAGE_DIRS = (
    "protocol",
    "runtime",
    "storage_node",
    "controller",
    "coordinators",
    "clients",
    "stream",
    "services",
)
IMPURE_MODULES = {
    "time",
    "random",
    "asyncio",
    "threading",
    "socket",
    "os",
    "ray",
    "zmq",
    "select",
    "subprocess",
}
# Which codec is active is asked of the environment once per process; every caller would only pass it on.
# The event loop of the test driver has a virtual clock and no sockets.
ALLOWED = {
    ("protocol/records/codec.py", "environment_io"),
    ("stream/testing/driver.py", "virtual_loop_io"),
}
MAX_FILE_LINES = 500
MAX_TEST_FILE_LINES = 600  # tests are read one at a time
MAX_FUNCTION_LINES = 80
# The command line is one function per command, mostly options; still bounded by MAX_FILE_LINES.

# Where Python may sleep, and what for. Everywhere else something tells, and is waited for.
SLEEPERS = {
    "stream/watch/instance_io.py": "the interval of samples of stacks",
    "runtime/server_host_io.py": "the moment in which a call is answered before the process ends",
    "runtime/waiting_io.py": "what another program does without a word; the length of a measurement",
    "services/bench/pacing_io.py": "an open loop's intended times",
    "services/line_sources_io.py": "a sampler's period",
    "tests/faults/alerts/test_alerts_local.py": "the fault: an event loop that stalls",
}
# Bytes that these modules load are code to Python. None of them may have come from the network, but through
# Ray or Spark, whose own messages are of this kind.
UNPICKLERS = {
    "clients/spark/writing_io.py": "results of our own tasks, through Spark",
    "services/bench/worker_pool.py": "a copy of an error of this process",
    "stream/ray/program_io.py": "the program of an application, through Ray",
}
UNPICKLING = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def sources(*more: str) -> list[Path]:
    """The modules of the packages, and of the folders in `more`."""
    return sorted(path for folder in (*PACKAGE_DIRS, *more) for path in (ROOT / folder).rglob("*.py"))


def compiled() -> list[Path]:
    return sorted(path for ending in ("pyx", "pxi") for path in (ROOT / "protocol").rglob(f"*.{ending}"))


def everything() -> list[Path]:
    return sources("benchmarks", "examples", "tests")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_of_a_package(path: Path) -> bool:
    return path.relative_to(ROOT).parts[0] in PACKAGE_DIRS


def is_impure(path: Path) -> bool:
    return path.stem.endswith(("_io", "_actor")) or path.relative_to(ROOT).parts[0] == "services"


def may_touch_ray(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    is_for_ray = parts[:2] in (("clients", "ray_data"), ("stream", "ray")) and is_impure(path)
    return path.stem.endswith("_actor") or parts[0] == "services" or is_for_ray


def runtime_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements that run: everything but the bodies of `if TYPE_CHECKING`."""
    for node in statements(tree, with_types=False):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


def impure_imports(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    if is_impure(path) or not is_of_a_package(path):
        return
    for node in runtime_imports(nodes[0]):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules = [(node.module or "").split(".")[-1], (node.module or "").split(".")[0]] + (
                names if not node.module else []
            )
        else:
            modules = [name.split(".")[0] for name in names]
        bad = [name for name in modules if name in IMPURE_MODULES or name.endswith(("_io", "_actor"))]
        # `os` inside our own package names would be relative; level 0 only for the standard library
        if isinstance(node, ast.ImportFrom) and node.level:
            bad = [name for name in bad if name.endswith(("_io", "_actor"))]
        bad = [name for name in bad if (relative(path), name) not in ALLOWED]
        if bad:
            yield f"{relative(path)}:{node.lineno} imports {bad}"


def test_pure_modules_import_nothing_impure(found: Findings) -> None:
    """Only *_io.py, *_actor.py and services/ touch clocks, sockets, files, threads, or import what does."""
    assert found[impure_imports] == []


def imports_of_ray(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    if may_touch_ray(path) or not is_of_a_package(path):
        return
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from (relative(path) for name in names if name.split(".")[0] == "ray")


def test_only_actors_and_services_touch_ray(found: Findings) -> None:
    """Ray stays at the edge, so that everything else runs without it."""
    assert found[imports_of_ray] == []


def large_things(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    is_test = path.relative_to(ROOT).parts[0] == "tests"
    lines = len(path.read_text().splitlines())
    if lines > (MAX_TEST_FILE_LINES if is_test else MAX_FILE_LINES):
        yield f"{relative(path)} has {lines} lines"
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{relative(path)}: {node.name} has {length} lines"


def test_files_and_functions_stay_small(found: Findings) -> None:
    """A file past 500 lines is split by idea; a function past 80 lines is missing a name."""
    assert found[large_things] == []


def function_lengths(text: str) -> dict[str, int]:
    """Lines of each function of a Cython file: from its first line to the last one indented below it."""
    lengths: dict[str, int] = {}
    open_functions: list[tuple[int, str, int]] = []  # (indentation, head, first line)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in ")#":
            continue
        indentation = len(line) - len(line.lstrip())
        open_functions = [found for found in open_functions if found[0] < indentation]
        for _, head, first in open_functions:
            lengths[head] = number - first + 1
        if re.match(r"\s*(def|cdef|cpdef) .*\(", line):
            open_functions.append((indentation, f"{number}: {line.strip()}", number))
    return lengths


def test_compiled_files_and_functions_stay_small() -> None:
    """The same limits as for what they are the twins of."""
    for path in compiled():
        text = path.read_text()
        assert len(text.splitlines()) <= MAX_FILE_LINES, relative(path)
        lengths = function_lengths(text)
        too_long = {head: length for head, length in lengths.items() if length > MAX_FUNCTION_LINES}
        assert not too_long, relative(path)


def test_lengths_of_compiled_functions() -> None:
    """Heads over several lines, empty lines inside, methods in classes; what follows does not count."""
    text = "cdef int one(\n    int a,\n) except -1:\n\n    return a\n\ncdef class K:\n    def two(self):\n"
    text += "        pass\n    cdef int field\nDEF = 1\n"
    assert function_lengths(text) == {"1: cdef int one(": 5, "8: def two(self):": 2}


def without_docstrings(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    tree = nodes[0]
    assert isinstance(tree, ast.Module)
    is_test = path.relative_to(ROOT).parts[0] == "tests"
    if not ast.get_docstring(tree):
        yield f"{relative(path)} has no docstring"
    for node in [] if is_test else tree.body:
        is_named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if is_named and node.name[0] != "_" and not ast.get_docstring(node):
            yield f"{relative(path)}: {node.name} has no docstring"


def test_modules_classes_and_public_functions_have_docstrings(found: Findings) -> None:
    """Every module, public class and public function at module level has a docstring; of a test the name may
    say it all."""
    assert found[without_docstrings] == []


def sleepers(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    if "time.sleep" not in path.read_text():  # all files are formatted: no space and no line between
        return
    for node in ast.walk(nodes[0]):
        if isinstance(node, ast.Attribute) and node.attr == "sleep" and ast.unparse(node) == "time.sleep":
            yield relative(path)


def test_only_the_listed_modules_sleep(found: Findings) -> None:
    """A sleep that waits for an effect is too short on some machine: it stands only where nothing tells."""
    assert set(found[sleepers]) == set(SLEEPERS)


def unpicklers(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    if not is_of_a_package(path):
        return
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        if UNPICKLING & set(names):
            yield relative(path)
    if "ray.cloudpickle" in path.read_text():
        yield relative(path)


def test_nothing_from_the_network_is_unpickled(found: Findings) -> None:
    """What unpickles is listed, with the source of its bytes."""
    assert set(found[unpicklers]) == set(UNPICKLERS)


CHECKS = (impure_imports, imports_of_ray, large_things, without_docstrings, sleepers, unpicklers)


@pytest.fixture(scope="module")
def found() -> Findings:
    """What each check says of all files, by the statements of their trees, the module first. Each file is
    parsed once, and its tree is dropped: together they would be two million objects, which slow down every
    garbage collection."""
    findings: Findings = {check: [] for check in CHECKS}
    for path in everything():
        nodes = list(statements(ast.parse(path.read_text())))
        for check in CHECKS:
            findings[check] += check(path, nodes)
    return findings


def test_found_examples_are_not_timed() -> None:
    """An example that takes long on a busy machine is no failure; tests/conftest.py says so for all."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_nothing_that_is_installed_is_skipped() -> None:
    """What `make setup` installs is imported by the tests that need it: an import that fails is a failure."""
    word = "import" + "orskip"
    assert [relative(path) for path in everything() if word in path.read_text()] == []


def test_every_part_of_the_compiled_codec_is_a_dependency() -> None:
    """A missing part would not be compiled again when it changes."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = settings["tool"]["setuptools"]["ext-modules"]
    listed = {path for module in modules for path in (*module["sources"], *module.get("depends", ()))}
    assert listed == {relative(path) for path in compiled()}


def test_every_package_is_listed() -> None:
    """An explicit list of packages: a folder that is missing there would be missing in the wheel."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {
        "headrace." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in PACKAGE_DIRS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert sorted(folders | {"headrace"}) == sorted(listed)


def test_every_wire_error_is_used_somewhere() -> None:
    """An error class that no code raises or returns would document an error that never occurs."""
    tree = ast.parse((ROOT / "protocol" / "errors.py").read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    text = "\n".join(path.read_text() for path in sources() if path.name != "errors.py")
    text += "\n".join(path.read_text() for path in (ROOT / "protocol" / "records").glob("*.p[yx][xi]"))
    text += (ROOT / "protocol" / "errors.py").read_text().split("ERRORS_BY_CODE", 1)[1]
    assert not sorted(name for name in classes if name not in text)


def test_the_reference_pages_are_current() -> None:
    """docs/AUTHORIZATION.md, CONFIG.md, ERRORS.md, METRICS.md, PROTOCOL.md and STATES.md are what `make docs`
    writes now."""
    from headrace.services import reference
    from headrace.services.cli_reference import cli_page

    page = (ROOT / "docs" / "AUTHORIZATION.md").read_text()
    assert page == reference.authorization_page(), "run `make docs`"
    assert (ROOT / "docs" / "CLI.md").read_text() == cli_page(), "run `make docs`"
    assert (ROOT / "docs" / "CONFIG.md").read_text() == reference.config_page(), "run `make docs`"
    assert (ROOT / "docs" / "ERRORS.md").read_text() == reference.errors_page(), "run `make docs`"
    assert (ROOT / "docs" / "METRICS.md").read_text() == reference.metrics_page(), "run `make docs`"
    assert (ROOT / "docs" / "PROTOCOL.md").read_text() == reference.protocol_page(), "run `make docs`"
    assert (ROOT / "docs" / "STATES.md").read_text() == reference.states_page(), "run `make docs`"


def test_the_config_page_has_every_declared_key() -> None:
    """Of all classes of keys that servers, clients and streams applications use; options of pipelines are in
    PIPELINE.md."""
    from headrace.runtime.config import Config
    from headrace.services import reference

    def declared(base: type[Config]) -> Iterator[str]:
        for config in base.__subclasses__():
            # not those of other tests, and not those that only some workers have imported
            if config.__module__.startswith("headrace.") and "pipeline" not in config.__module__.split("."):
                yield from (facts.name for facts in config.keys().values())
                yield from declared(config)

    page = reference.config_page()
    names = set(declared(Config))
    assert "sasl.username" in names
    assert not sorted(name for name in names if f"| `{name}` |" not in page)


def test_the_synchronous_clients_are_current() -> None:
    """clients/sync/ has what `make docs` makes of clients/aio/ now."""
    from headrace.services.sync_clients import MODULES, sync_source

    for name in MODULES:
        assert (ROOT / "clients" / "sync" / f"{name}.py").read_text() == sync_source(name), "run `make docs`"


def test_the_public_face_is_documented_and_typed() -> None:
    """`py.typed` ships, and what `headrace.__all__` names exists."""
    import headrace

    assert (ROOT / "py.typed").exists()
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    aio = importlib.import_module("headrace.aio")
    assert aio is headrace.aio
    for name in aio.__all__:
        assert getattr(aio, name) is not None
