"""Workers share the compilation of all sources."""

import importlib.util
import os
from pathlib import Path

import bytecode
import pytest
from _pytest.assertion import rewrite


def test_each_file_is_compiled_by_one_worker(tmp_path: Path) -> None:
    """Not what is made: environments, builds, bytecode."""
    for folder in ("a", ".venv", "build", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").touch()
    names = ["test_b.py", "c.py", "conftest.py", "notes.txt"]
    for name in names:
        (tmp_path / name).touch()
    shares = [bytecode.share(number, 3, tmp_path) for number in range(3)]
    assert sorted(path for each in shares for path in each) == sorted(
        [tmp_path / "a" / "m.py", *(tmp_path / name for name in names[:3])]
    )
    assert len(max(shares, key=len)) == 2


def test_python_and_pytest_find_the_bytecode(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """A file that did not change is not compiled again."""
    plain, of_tests = tmp_path / "a.py", tmp_path / "test_a.py"
    compiled = (
        Path(importlib.util.cache_from_source(str(plain))),
        rewrite.get_cache_dir(of_tests) / f"test_a{rewrite.PYC_TAIL}",
    )
    for number in range(2):
        for path in (plain, of_tests):
            path.write_text(f"assert {number} == {number}\n")
            os.utime(path, (number + 1, number + 1))
        for path in compiled if number else ():
            os.utime(path, (1, 1))
        bytecode.compile_changed(pytestconfig, [plain, of_tests])
        assert rewrite._read_pyc(of_tests, compiled[1]) is not None
        assert all(path.exists() for path in compiled)
    before = [path.stat().st_mtime_ns for path in compiled]
    bytecode.compile_changed(pytestconfig, [plain, of_tests])
    assert [path.stat().st_mtime_ns for path in compiled] == before
