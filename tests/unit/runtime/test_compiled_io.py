"""Which build of a hot module is loaded."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import setuptools
from headrace.runtime.compiled_io import HOT_MODULES, CompiledFinder, built_of, source_of
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parents[3]
MODULE = "headrace.storage_node.log.roll_rules"


def test_hot_modules_exist() -> None:
    """A moved module must be renamed there, else it would run as Python."""
    assert not [name for name in HOT_MODULES if not source_of(name).is_file()]


def test_only_a_build_of_the_same_source_is_loaded(tmp_path: Path) -> None:
    """An edited module runs as Python."""
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
def test_python_source_is_loaded_on_request(choice: str) -> None:
    """Also where there is no build."""
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


def build_command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What builds modules, without running setup.py's build."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **values: made.update(values))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return made["cmdclass"]["build_ext"](setuptools.Distribution({"ext_modules": []}))


def test_wheel_has_one_build_of_each_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build folder stays from one wheel to the next, while sources change."""
    monkeypatch.setattr(build_ext, "run", lambda _command: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda *_arguments, **_options: [])
    command = build_command(monkeypatch)
    command.build_lib = str(tmp_path)
    built = tmp_path / "headrace" / built_of(source_of(MODULE)).resolve().relative_to(ROOT)
    built.parent.mkdir(parents=True)
    built.touch()
    old = built.with_name(built.name.replace(built.name.split(".")[1], "0" * 12))
    other = built.with_name("roll_rules.of_another.python.so")
    for each in (old, other):
        each.touch()
    command.run()
    assert (built.exists(), old.exists(), other.exists()) == (True, False, True)


@pytest.mark.parametrize("is_required", [False, True])
def test_without_a_compiler_nothing_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_required: bool
) -> None:
    """Cython would work for minutes, for nothing. A build that needs the codec goes on, and fails."""
    translated: list[Any] = []
    monkeypatch.setattr(build_ext, "run", lambda _command: None)
    monkeypatch.setattr("Cython.Build.cythonize", lambda found, **_options: translated.extend(found) or [])
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler -O2"))
    monkeypatch.setenv("HEADRACE_REQUIRE_CODEC", "1" if is_required else "")
    command = build_command(monkeypatch)
    command.build_lib = str(tmp_path)
    command.distribution.ext_modules = [setuptools.Extension("headrace.protocol.records._batch", ["a.pyx"])]
    command.run()
    assert bool(translated) == bool(command.distribution.ext_modules) == is_required


def test_a_source_that_changes_while_it_is_compiled_has_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name would have the digest of one version, and its code be of the other."""
    monkeypatch.setattr(build_ext, "run", lambda _command: None)
    command = build_command(monkeypatch)
    command.build_lib = str(tmp_path / "lib")
    same, changed = tmp_path / "same.py", tmp_path / "changed.py"
    for source in (same, changed):
        source.write_text("x = 1\n")
    sources = {"headrace.same": same, "headrace.changed": changed}
    monkeypatch.setitem(type(command).run.__globals__, "_SOURCES", sources)

    def cythonize(extensions: list[Any], **options: Any) -> list[Any]:
        assert options["force"], "C code of an earlier source is not taken"
        changed.write_text("x = 2\n")
        return extensions

    monkeypatch.setattr("Cython.Build.cythonize", cythonize)
    command.initialize_options()
    command.run()
    assert [extension.name for extension in command.distribution.ext_modules] == ["headrace.same"]


def test_builds_are_installed_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing one is loaded, and not built again."""
    made, wanted = tmp_path / "made.so", tmp_path / "wanted.so"
    made.write_bytes(b"whole")

    def cut_short(_command: Any, _source: str, target: str, **_options: Any) -> None:
        Path(target).write_bytes(b"who")
        raise KeyboardInterrupt

    command = build_command(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(setuptools.Command, "copy_file", cut_short)
        with pytest.raises(KeyboardInterrupt):
            command.copy_file(str(made), str(wanted))
    assert not wanted.exists()
    command.copy_file(str(made), str(wanted))
    assert wanted.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == [made, wanted]
