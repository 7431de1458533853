"""Which build of a hot module is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from headrace.runtime.compiled_io import HOT_MODULES, CompiledFinder, built_of, source_of

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "headrace.storage_node.log.roll_rules"


@pytest.mark.parametrize("name", sorted(HOT_MODULES))
def test_hot_modules_exist(name: str) -> None:
    """One that was moved would never be compiled again, and nobody would see it."""
    assert source_of(name).is_file()


def test_only_a_build_of_the_very_source_is_found(tmp_path: Path) -> None:
    """Who edits a module runs what was edited."""
    source = source_of("p.inner.m", tmp_path)
    finder = CompiledFinder(["p.inner.m", "p.gone"], tmp_path)
    source.parent.mkdir()
    source.write_text("x = 1\n")
    assert finder.find_spec("p.inner.m") is None
    built = built_of(source)
    built.touch()
    spec = finder.find_spec("p.inner.m")
    assert spec is not None
    assert (spec.name, spec.origin) == ("p.inner.m", str(built))
    assert finder.find_spec("p.inner.other") is None
    assert finder.find_spec("p.gone") is None
    source.write_text("x = 2\n")
    assert finder.find_spec("p.inner.m") is None
    source.write_text("x = 1\n")
    assert finder.find_spec("p.inner.m") is not None


@pytest.mark.parametrize("choice", ["", "python"])
def test_the_readable_one_is_run_where_it_is_asked_for(choice: str) -> None:
    """And where the compiled one is not built."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {MODULE} as m; print(m.__file__)"],
        env={**os.environ, "HEADRACE_CODEC": choice},
        capture_output=True,
        text=True,
        check=True,
    )
    source = source_of(MODULE)
    is_compiled = not choice and built_of(source).exists()
    assert done.stdout.strip() == str(built_of(source) if is_compiled else source)
