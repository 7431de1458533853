"""The pytest plugin: clusters in the process of the test, as from `headrace.local`.

Fixtures: `headrace_cluster` (a new one for each test), `headrace_session_cluster` (one for the whole run),
`headrace_cluster_factory` (any number), and `headrace_stream_driver` (tests of stream applications). Options
are the arguments of `headrace.local`: for all clusters of a run in the ini option `headrace_options`,
overridden for a test, class or module by the marker `headrace`, overridden by a call of the factory.

A cluster runs in a thread of its own, so it serves blocking and asyncio clients in any kind of test. pytest
loads this module in every run where headrace is installed: other modules are imported only when a cluster is
created.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..stream.testing.driver import TestDriver
    from .local_io import LocalCluster

OPTIONS = "headrace_options"
MARKER = "headrace"
_NUMBERS = ("nodes", "controllers")


class ClusterFactory(Protocol):
    """The type of the fixture `headrace_cluster_factory`."""

    def __call__(
        self, *, nodes: int = ..., data_dir: str | None = ..., controllers: int = ..., **config: Any
    ) -> LocalCluster:
        """A running cluster, which is closed after the test. Errors: as of `headrace.local`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option `headrace_options`."""
    about = "Arguments of headrace.local for the clusters of all fixtures, a key=value per line."
    parser.addini(OPTIONS, about, type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `headrace`, for --strict-markers."""
    about = f"{MARKER}(nodes=1, controllers=1, **config): arguments of headrace.local for headrace_cluster."
    config.addinivalue_line("markers", about)


@pytest.fixture
def headrace_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A new cluster with temporary files. The marker `headrace` sets its options."""
    with _cluster({**_ini_options(request.config), **_marked_options(request.node)}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def headrace_session_cluster(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """One cluster for the whole run (per worker with pytest-xdist): tests share its topics and groups, so
    each uses names of its own."""
    with _cluster(_ini_options(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def headrace_cluster_factory(request: pytest.FixtureRequest) -> Iterator[ClusterFactory]:
    """Starts clusters, with the options of `headrace_cluster` and those of the call."""
    options = {**_ini_options(request.config), **_marked_options(request.node)}
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(_cluster({**options, **given}))


@pytest.fixture
def headrace_stream_driver() -> Iterator[Callable[..., TestDriver]]:
    """Makes test drivers of stream applications, as `headrace.stream.TestDriver`; closed after the test."""
    from ..stream.testing.driver import TestDriver

    with ExitStack() as stack:
        yield lambda topology, **options: stack.enter_context(TestDriver(topology, **options))


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
    """The nearest marker wins. Errors: pytest.UsageError."""
    options: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes keywords, such as nodes=3: {marker.args}")
        options.update(marker.kwargs)
    return options
