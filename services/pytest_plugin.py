"""The pytest plugin: clusters in the test's own process, as `headrace.local` makes them.

Fixtures: `headrace_cluster` (a fresh one for each test), `headrace_session_cluster` (one for the whole run)
and `headrace_cluster_factory` (as many as a test wants). Options are the arguments of `headrace.local`: for
all clusters of a run in the ini option `headrace_options`, over that for a test, class or module in the
marker `headrace`, over that in a call of the factory.

A cluster runs in a thread of its own, so it serves blocking and asyncio clients in any kind of test. pytest
loads this module in every run where headrace is installed: nothing else is imported until a cluster is made.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .local_io import LocalCluster

OPTIONS = "headrace_options"
MARKER = "headrace"
_NUMBERS = ("nodes", "controllers")


class ClusterFactory(Protocol):
    """What the fixture `headrace_cluster_factory` gives."""

    def __call__(
        self, *, nodes: int = ..., data_dir: str | None = ..., controllers: int = ..., **config: Any
    ) -> LocalCluster:
        """A running cluster, which ends with the test. Errors: as of `headrace.local`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    about = "Arguments of headrace.local for the clusters of all fixtures, a key=value per line."
    parser.addini(OPTIONS, about, type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, as --strict-markers wants it."""
    about = f"{MARKER}(nodes=1, controllers=1, **config): arguments of headrace.local for headrace_cluster."
    config.addinivalue_line("markers", about)


@pytest.fixture
def headrace_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A fresh cluster; its files go with it. The marker `headrace` gives its options."""
    with _cluster({**_ini_options(request.config), **_marked_options(request.node)}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def headrace_session_cluster(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """One cluster for the whole run (of a worker, with pytest-xdist): topics and groups of one test are there
    in the next, so each takes names of its own."""
    with _cluster(_ini_options(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def headrace_cluster_factory(request: pytest.FixtureRequest) -> Iterator[ClusterFactory]:
    """Starts clusters, with the options of `headrace_cluster` and over them those of the call."""
    options = {**_ini_options(request.config), **_marked_options(request.node)}
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(_cluster({**options, **given}))


def _cluster(options: dict[str, Any]) -> LocalCluster:
    from .local_io import local

    return local(**options)


def _ini_options(config: pytest.Config) -> dict[str, Any]:
    """Errors: pytest.UsageError."""
    options: dict[str, Any] = {}
    for line in config.getini(OPTIONS):
        name, separator, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not separator or not name:
            raise pytest.UsageError(f"{OPTIONS}: {line!r} is not key=value")
        if name in _NUMBERS and not value.isdecimal():
            raise pytest.UsageError(f"{OPTIONS}: {name} is a number, not {value!r}")
        options[name] = int(value) if name in _NUMBERS else value
    return options


def _marked_options(item: pytest.Item) -> dict[str, Any]:
    """Those of the nearest marker win. Errors: pytest.UsageError."""
    options: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes keywords, such as nodes=3: {marker.args}")
        options.update(marker.kwargs)
    return options
