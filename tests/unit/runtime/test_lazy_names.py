"""Packages whose names are imported at their first use: each is there, and another is refused by name."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["", ".clients", ".clients.pipeline", ".clients.ray_data", ".clients.spark"]


@pytest.mark.parametrize("name", PACKAGES)
def test_package_lists_its_lazy_names_and_refuses_others(name: str) -> None:
    """`dir` shows all, also those that need an extra."""
    package = importlib.import_module(f"headrace{name}")
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=rf"module 'headrace{name}' has no attribute 'no_such_name'"):
        _ = package.no_such_name
    if name in {"", ".clients"}:
        for public in package.__all__:
            assert getattr(package, public) is vars(package)[public]


def test_importing_headrace_loads_no_client_or_server() -> None:
    """Nor Spark, Ray or Arrow."""
    response = subprocess.run(
        [sys.executable, "-c", "import sys, headrace; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = {"ray", "pyarrow", "pyspark", "zmq", "headrace.clients.sync", "headrace.storage_node"}
    assert not heavy & set(response)
