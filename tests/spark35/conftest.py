"""Tests of PySpark 3.5: they run in an environment of their own (`make spark`), nowhere else."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _is_here() -> bool:
    try:
        return version("pyspark").startswith("3.5.")
    except PackageNotFoundError:
        return False


collect_ignore_glob = [] if _is_here() else ["test_*.py"]
