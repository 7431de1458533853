"""The parent of Spark's Python workers, for `spark.python.daemon.module`: it imports common modules once.

Spark adds archives with its Python code to sys.path, including a whole jar, and clears the import caches
before every task. Up to Python 3.12 that reads the archives' directories again, 80 ms per task. With an
installed PySpark package they are not needed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from pathlib import Path

from .worker_garbage_io import freeze_imports

# Spark's workers import pandas and pyarrow anyway before Arrow tasks.
_NEEDED = (
    "pandas",
    "pyarrow.compute",
    "headrace.clients.pipeline.reading_io",
    "headrace.clients.pipeline.writing_io",
)


def drop_archives() -> None:
    """Remove Spark's archives from sys.path, if its packages are installed."""
    others = [entry for entry in sys.path if not _is_of_spark(entry)]
    before, sys.path[:] = sys.path[:], others
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "py4j")):
        sys.path[:] = before
        return
    dropped = tuple(entry for entry in before if _is_of_spark(entry))
    if not dropped:
        return
    # modules that were imported as packages from folders of the jar would add it again
    for name, module in list(sys.modules.items()):
        places = list(getattr(module, "__path__", ()))
        if places and all(str(place).startswith(dropped) for place in places):
            del sys.modules[name]
    for entry in list(sys.path_importer_cache):  # folders inside of them too
        if entry.startswith(dropped):
            del sys.path_importer_cache[entry]


def _is_of_spark(entry: str) -> bool:
    name = Path(entry).name
    return name.endswith((".zip", ".jar")) and name.startswith(("pyspark", "py4j", "spark-core_"))


def main() -> None:
    """Serve until Spark ends the process."""
    drop_archives()
    for name in _NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    daemon = importlib.import_module("pyspark.daemon")
    freeze_imports()
    daemon.manager()


if __name__ == "__main__":
    main()
