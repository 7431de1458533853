"""Missing libraries of extras: the error says what needs them and what to install."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from headrace.clients import ray_data, spark
from headrace.runtime.extras import missing_extra

ROOT = Path(__file__).parents[3]
WITHOUT = """
import sys, headrace
sys.modules[{module!r}] = None  # as if it were not installed
try:
    {statement}
except Exception as error:
    print(type(error).__name__, error)
"""


def test_error_names_purpose_library_and_extra() -> None:
    """For a missing module, and for a version without the name."""
    missing = missing_extra(ModuleNotFoundError("No module named 'x.y'", name="x.y"), "Tables", "arrow")
    assert str(missing) == "Tables: x.y is not installed here: pip install 'headrace[arrow]'"
    assert missing.name == "x.y"
    old = missing_extra(ImportError("cannot import name 'z' from 'x'", name="x"), "Tables", "arrow")
    assert str(old) == "Tables: cannot import name 'z' from 'x': pip install 'headrace[arrow]'"


def test_import_error_of_own_modules_is_unchanged() -> None:
    """It is a bug that no extra fixes."""
    ours = ModuleNotFoundError("No module named 'headrace.gone'", name="headrace.gone")
    assert missing_extra(ours, "Tables", "arrow") is ours


def test_outermost_purpose_is_reported() -> None:
    """Ray Data needs more than Arrow does; the same extra is named once."""
    cause = ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    inner = missing_extra(cause, "Arrow tables", "arrow")
    inner.__cause__ = cause
    outer = missing_extra(inner, "headrace.ray_data.read", "ray-data")
    assert (
        str(outer)
        == "headrace.ray_data.read: pyarrow is not installed here: pip install 'headrace[ray-data]'"
    )
    assert missing_extra(inner, "Other tables", "arrow") is inner


@pytest.mark.parametrize(
    ("module", "statement", "response"),
    [
        (
            "pandas",
            "headrace.ray_data.read",
            "MissingExtraError headrace.ray_data.read: pandas is not installed here",
        ),
        ("pyarrow", "headrace.ray_data.write", "pip install 'headrace[ray-data]'"),
        ("torch", "headrace.ray_data.TorchDataset", "pip install 'headrace[torch]'"),
        ("pyarrow", "headrace.spark.read", "headrace.spark.read: pyarrow is not installed here"),
        ("pyspark", "headrace.spark.register", "pip install 'headrace[spark]'"),
        ("pyarrow", "headrace.ARROW_SCHEMA", "Arrow tables: pyarrow is not installed here"),
        (
            "kio",
            "headrace.local(listeners='PLAINTEXT://127.0.0.1:0')",
            "ConfigError The config key `listeners`: kio",
        ),
    ],
)
def test_every_lazy_name_reports_its_extra(module: str, statement: str, response: str) -> None:
    """Not only the missing module."""
    code = WITHOUT.format(module=module, statement=statement)
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert response in done.stdout
    assert "pip install 'headrace[" in done.stdout


def test_every_reported_extra_exists() -> None:
    """In pyproject.toml, under the same name."""
    named = {*ray_data._EXTRAS.values(), *spark._EXTRAS.values()}
    for folder in ("clients", "services", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            named |= set(extras_named_in(ast.parse(path.read_text())))
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"arrow", "kafka", "ray-data", "spark", "torch"} <= named <= declared.keys()


def extras_named_in(tree: ast.Module) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) == 3]
    return [
        str(call.args[2].value)
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "missing_extra"
        and isinstance(call.args[2], ast.Constant)
    ]
