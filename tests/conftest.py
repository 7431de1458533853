"""What all tests share: the fakes on the import path, and no Ray by accident."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from _pytest.nodes import Collector
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from command_line import CommandLine

ROOT = Path(__file__).parent.parent
ON_REQUEST = ("deploy", "faults", "oracle")  # marks of tests that take minutes: only -m runs them
LISTED_S = 0.005  # `--durations` leaves out what is shorter

# pytest rewrites the assertions of all packages with plugins, since 9.2 of editable ones, too. Those of
# headrace are in its hot paths, and its processes would need another bytecode than its tests.
for finder in sys.meta_path:
    if isinstance(finder, AssertionRewritingHook):
        finder._must_rewrite -= {"anyio", "headrace", "hypothesis", "platformdirs"}

# Before anything imports Ray: no token is written into the developer's home folder.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
# Ray gives its workers a low priority (15): beside tests that compute, some took minutes to start.
os.environ.setdefault("RAY_worker_niceness", "0")
# No test reads Ray's own metrics, which each of its processes reports again and again. For usage
# statistics Ray Data has an actor, a process with Ray imported.
os.environ.setdefault("RAY_enable_metrics_collection", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# JVMs of tests live for seconds or a few minutes: the optimizing compiler takes more time than it saves, and
# the verification of classes, which are those of releases, a fifth of a start.
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join((*_JVM, *_UNVERIFIED)))

# A job in the background of a shell script ignores Ctrl-C, and so would each command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Found examples may take their time: a machine that is busy is no failure. Tests of Spark have no hypothesis.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("headrace")

# Some hundred processes are started: none of them is to compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

sys.path.insert(0, str(Path(__file__).parent / "fakes"))
sys.path.insert(0, str(Path(__file__).parent / "sim"))
sys.path.insert(0, str(Path(__file__).parent / "traces"))
sys.path.insert(0, str(Path(__file__).parent / "oracle"))
sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

import bytecode  # noqa: E402 - found on that path
import work_units  # noqa: E402


class _RootIsNoTestPackage:
    """The root folder is the package, installed as `headrace`.

    pytest sees its `__init__.py` and would import it once more under the name of the checkout: a second copy
    of everything, and no name at all when the folder is called `headrace-main`.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: Collector) -> Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


@pytest.fixture
def command_line(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs `headrace` command lines in this process."""
    from command_line import CommandLine  # tests of Spark have no services

    return CommandLine(capfdbinary, monkeypatch)


@pytest.fixture
def run_async() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs an `async def` test on the event loop of servers; folders and modules override it."""
    from transport_kit import run

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test runs through `run_async`; async context managers among its fixtures are entered."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            values = dict(pyfuncitem.funcargs)
            for name, value in values.items():
                if isinstance(value, contextlib.AbstractAsyncContextManager):
                    values[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**{name: values[name] for name in pyfuncitem._fixtureinfo.argnames})

    pyfuncitem._request.getfixturevalue("run_async")(test())
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """More than there are cores: of most tests the half is waiting."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else work_units.worker_count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """Which worker runs what."""
    return work_units.new_scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker reports of setups and teardowns only failures and what `--durations` lists, and no begin.

    A message takes a fifth of a millisecond of two processes, and a test would send six.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > LISTED_S:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests with a mark of ON_REQUEST that -m does not name; sort the others for the workers."""
    marks = [mark for mark in ON_REQUEST if mark not in config.option.markexpr]
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
    items.sort(key=lambda item: work_units.rank(item.nodeid))


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while ten thousand tests are made: each time it would visit all of them.

    In a fresh checkout workers divide the compilation: each would compile the same file at the same time.
    """
    gc.disable()
    if worker := getattr(session.config, "workerinput", None):
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        bytecode.compile_changed(session.config, bytecode.share(number, count))


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, with the garbage of imports: a search for it among
    all of them would take most of a second."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, because hooks of a conftest are not asked about the folders above it."""
    config.pluginmanager.register(_RootIsNoTestPackage())
