"""Installs a wheel with each extra into a fresh environment, and uses the extra: `make release-test`.

Each use is a program in release/uses that does what the extra is for: a page, a record, a snapshot in S3.
Needs the network or a package cache; `kerberos` needs MIT's KDC, Spark a JDK 17. Extras that install
gigabytes (`torch`, `raydp`, `spark`) are tried with --heavy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import ROOT, ReleaseError, environment, python_of, run

HEAVY = ("raydp", "spark", "torch")
SPARK = ("raydp", "spark")  # gives a Python process ten seconds to start: it has its bytecode then
# Lists of packages for this repository, not for programs.
NOT_FOR_USERS = ("bench", "dev", "test")
USES = ROOT / "release" / "uses"
# What a use needs beside the extra: clients, and services of others.
BESIDE = {
    "kafka": ("kafka-python>=2.2",),
    "kerberos": ("pytest>=8.3",),  # of the KDC of the tests
    "security": ("kafka-python>=2.2",),
    "snapshots": ("moto[server]>=5",),
}
WITH_EXTRAS = {"security": "kafka,security"}


def use_of(extra: str) -> Path:
    """The program that uses the extra; "" is the package without extras."""
    return USES / f"use_{(extra or 'plain').replace('-', '_')}.py"


def extras() -> list[str]:
    """The extras of the package, for programs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [name for name in project["optional-dependencies"] if name not in NOT_FOR_USERS]


def attempt(wheel: Path, extra: str, folder: Path) -> float:
    """Install and use; gives the seconds. Errors: ReleaseError."""
    began = time.monotonic()
    wanted = f"{wheel}[{WITH_EXTRAS.get(extra, extra)}]" if extra else str(wheel)
    packages = (wanted, *BESIDE.get(extra, ()))
    options = [] if extra in SPARK else ["--no-compile"]
    inside = environment(folder / (extra or "plain"), python_of(wheel), *packages, options=options)
    run(inside, "-m", "pip", "check")
    env = {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": "", "PYSPARK_PYTHON": str(inside)}
    run(inside, use_of(extra), cwd=folder, env=env)
    version = run(inside, "-m", "headrace", "version", cwd=folder, env=env)
    if "compiled" not in version:
        raise ReleaseError(f"the codec is not compiled: {version}")
    return time.monotonic() - began


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--heavy", action="store_true")
    given = parser.parse_args()
    names = given.only or ["", *(name for name in extras() if given.heavy or name not in HEAVY)]
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="headrace-extra-") as folder:
            try:
                took = attempt(given.wheel.resolve(), name, Path(folder))
                print(f"{name or '(none)':12} ok, {took:.0f} s", flush=True)
            except ReleaseError as error:
                failed += 1
                print(f"{name or '(none)':12} FAILED: {error}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
