"""The bytecode of a fresh checkout, made once: workers that start together would all compile each file."""

import compileall
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[2]
MADE = ("build", "node_modules")  # and what begins with a dot or an underscore


def share(number: int, count: int, root: Path = ROOT) -> Sequence[Path]:
    """The Python files that worker `number` of `count` compiles, a part of all that there are."""
    found: list[Path] = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name[0] not in "._" and name not in MADE]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)[number::count]


def compile_changed(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Compile what is newer than its bytecode; pytest compiles modules of tests in its own way."""
    for path in paths:
        if path.name.startswith("test_") or path.name == "conftest.py":
            _compile_test(config, path)
        else:
            compileall.compile_file(path, quiet=2)


def _compile_test(config: pytest.Config, path: Path) -> None:
    folder = rewrite.get_cache_dir(path)
    compiled = folder / (path.stem + rewrite.PYC_TAIL)
    if compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime:
        return
    if rewrite.try_makedirs(folder):
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, compiled)
