"""Measures from `pip install` in a fresh environment to a running cluster: a record was sent and read.

`--cold` downloads everything: pip uses no cache. Without it the cache of pip is used, which an earlier run
fills.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import ReleaseError, environment, python_of, run


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    python = python_of(given.wheel)
    with tempfile.TemporaryDirectory(prefix="headrace-start-") as name:
        folder = Path(name)
        env = {"PYTHONPATH": "", "RAY_AUTH_MODE": "disabled", "HEADRACE_HOME": str(folder / "home")}
        env |= {
            "HOME": str(folder),
            "PIP_CACHE_DIR": run(sys.executable, "-m", "pip", "cache", "dir").strip(),
        }
        began = last = time.monotonic()

        def lap(what: str) -> None:
            nonlocal last
            now = time.monotonic()
            print(f"{now - last:6.1f} s  {what}", flush=True)
            last = now

        inside = environment(folder / "venv", python)
        lap(f"{python.name} -m venv venv")
        options = ["--no-cache-dir"] if given.cold else []
        wheel = given.wheel.resolve()
        run(inside, "-m", "pip", "install", "--quiet", *options, wheel, cwd=folder, env=env)
        lap(f"pip install {given.wheel.name}" + (" (nothing cached)" if given.cold else ""))
        headrace = folder / "venv" / "bin" / "headrace"
        try:
            run(headrace, "up", "--nodes", "1", cwd=folder, env=env)
            lap("headrace up --nodes 1")
            run(headrace, "topic", "create", "orders", cwd=folder, env=env)
            (folder / "lines").write_text("hello\n")
            run(headrace, "produce", "orders", "lines", cwd=folder, env=env)
            found = run(headrace, "consume", "orders", "-e", cwd=folder, env=env)
            if found != "hello\n":
                raise ReleaseError(f"read {found!r}, not the record that was sent")
            lap("headrace topic create, produce, consume")
            print(f"{time.monotonic() - began:6.1f} s  in total")
        finally:
            run(headrace, "down", "--delete-data", "--yes", cwd=folder, env=env)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
