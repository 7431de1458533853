"""`session`: a Spark session for headrace's tasks, on Ray by RayDP or standalone.

JVM options for Java 17 and newer are set in the environment, which every JVM that Spark starts inherits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ConfigError
from .java import LEAST_VERSION, major_version, with_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

JAVA_TIMEOUT_S = 60.0
PLACEMENT_TIMEOUT_S = 60.0
_RAYDP_SPARK = "3.5."
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # speculative attempts would write twice, or fence each other
    "spark.speculation": "false",
    "spark.python.daemon.module": "headrace.clients.spark.worker_daemon_io",
    # PySpark 4: over TCP a worker waits 40 ms for its input, due to Nagle's algorithm and delayed
    # acknowledgements
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}


@contextlib.contextmanager
def session(
    app_name: str = "headrace",
    *,
    master: str | None = None,
    num_executors: int = 1,
    executor_cores: int = 1,
    executor_memory: str = "1g",
    resources: Mapping[str, float] | None = None,
    hosts: Sequence[str] | None = None,
    configs: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """A SparkSession, stopped at the end. Without `master` it runs on Ray by RayDP: on the connected Ray,
    else on one that is found or started.

    `resources` are custom Ray resources of each executor, which restrict executors to nodes that have them.
    `hosts` are addresses of Ray nodes for the executors, round-robin, such as those of storage nodes, so that
    readers are near their data. `configs` override the settings made here.

    Errors: ConfigError for a missing or old Java, missing or incompatible packages, unavailable hosts, or if
    a session already runs in this process.
    """
    if master is not None and (resources or hosts):
        raise ConfigError("resources and hosts need executors on Ray: omit master")
    _check_packages(on_ray=master is None)
    _prepare_environment()
    _check_none_runs()
    wanted = {**_DEFAULTS, **(configs or {})}
    if master is not None:
        spark = _local_session(app_name, master, wanted)
        try:
            yield spark
        finally:
            spark.stop()
        return
    with _on_ray(app_name, num_executors, executor_cores, executor_memory, resources, hosts, wanted) as spark:
        yield spark


def _local_session(app_name: str, master: str, configs: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in configs.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def _on_ray(
    app_name: str,
    num_executors: int,
    executor_cores: int,
    executor_memory: str,
    resources: Mapping[str, float] | None,
    hosts: Sequence[str] | None,
    configs: Mapping[str, str],
) -> Iterator[Any]:
    import ray
    import raydp
    from raydp.utils import parse_memory_size

    taken = {
        f"spark.ray.raydp_spark_executor.actor.resource.{k}": str(v) for k, v in (resources or {}).items()
    }
    # RayDP starts its JVM outside of this process, on a Ray that may be older than this environment.
    options = with_options("")
    java = {
        "spark.ray.raydp_app_master.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
    }
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    group = None
    if hosts:
        need = {"CPU": executor_cores, "memory": parse_memory_size(executor_memory), **(resources or {})}
        group = _placed(hosts, num_executors, need)
    try:
        spark = raydp.init_spark(
            app_name,
            num_executors,
            executor_cores,
            executor_memory,
            placement_group=group,
            configs={**java, **taken, **configs},
        )
        yield spark
    finally:
        raydp.stop_spark()
        if group is not None:
            ray.util.remove_placement_group(group)


def _placed(hosts: Sequence[str], count: int, need: Mapping[str, float]) -> Any:
    """A placement group with one bundle per executor, on the hosts round-robin. Errors: ConfigError for
    unknown hosts, or without free resources."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    missing = [host for host in hosts if f"node:{host}" not in there]
    if missing:
        known = ", ".join(sorted(name.removeprefix("node:") for name in there if name.startswith("node:")))
        raise ConfigError(f"Ray has no node at {', '.join(missing)}; its nodes are {known}")
    bundles = [{**need, f"node:{hosts[number % len(hosts)]}": 0.001} for number in range(count)]
    group = ray.util.placement_group(bundles, strategy="PACK")
    if not group.wait(PLACEMENT_TIMEOUT_S):
        ray.util.remove_placement_group(group)
        raise ConfigError(
            f"Ray has no free resources for {count} executors of {dict(need)} at {', '.join(hosts)}"
            f" within {PLACEMENT_TIMEOUT_S:g} s"
        )
    return group


def _check_packages(*, on_ray: bool) -> None:
    found = _version("pyspark")
    extra = "headrace[raydp] (PySpark 3.5 with RayDP)"
    if found is None:
        more = "" if on_ray else " or headrace[spark] (PySpark 4.2 or newer)"
        raise ConfigError(f"PySpark is not installed: install {extra}{more}")
    if not on_ray:
        return
    if _version("raydp") is None:
        raise ConfigError(
            f"RayDP is not installed: install {extra}, or give a master as in session(master='local[2]')"
        )
    if not found.startswith(_RAYDP_SPARK):
        raise ConfigError(
            f"RayDP needs PySpark 3.5, but {found} is installed: install {extra} in an"
            " environment of its own, or give a master as in session(master='local[2]')"
        )


def _check_none_runs() -> None:
    """A process has a single SparkContext: another session would reuse it with its settings, and stop it."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001
        raise ConfigError("a Spark session is already running in this process: stop it, or use it")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _prepare_environment() -> None:
    """Settings for every JVM and every worker started by this process."""
    _check_java()
    os.environ["JDK_JAVA_OPTIONS"] = with_options(os.environ.get("JDK_JAVA_OPTIONS", ""))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    need = f"Spark needs a JDK of version {LEAST_VERSION} or newer"
    if java is None or not Path(java).exists():
        where = (
            f"JAVA_HOME is {home}, which has no bin/java"
            if home
            else "no java in PATH, and JAVA_HOME is not set"
        )
        raise ConfigError(f"{need}: {where}")
    try:
        shown = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{need}: {java} does not run: {error}") from error
    found = major_version(shown.stderr + shown.stdout)
    if found is None or found < LEAST_VERSION:
        raise ConfigError(
            f"{need}: {java} is {'of an unknown version' if found is None else f'version {found}'}"
        )
