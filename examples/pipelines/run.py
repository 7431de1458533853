#!/usr/bin/env python3
"""Run a pipeline over an access log in its environment, which is created at the first run: `run.py raydp`.

Prints a table and the path of the plot. Without a name it runs all pipelines. Output of Java and Ray goes to
a file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# by name: the environment, the program, the function that plots its result
PIPELINES = {
    "raydp": (".venv-spark35", "sessions_raydp.py", "sessions"),
    "stream": (".venv-spark4", "sessions_stream.py", "sessions"),
    "features": (".venv", "features_ray.py", "features"),
}
SETTINGS = {"RAY_AUTH_MODE": "disabled", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONUNBUFFERED": "1"}


def main() -> int:
    """The exit code, 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PIPELINES)}")
    parser.add_argument("--input", help="an access log in Apache's combined format")
    parser.add_argument("--out", default=str(ROOT / "build" / "pipelines"), help="the folder for results")
    options = parser.parse_args()
    unknown = set(options.names) - set(PIPELINES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}, but {', '.join(PIPELINES)}")
    for name in options.names or PIPELINES:
        if not run(name, Path(options.out, name).absolute(), options.input):
            return 1
    return 0


def run(name: str, out: Path, given: str | None) -> bool:
    """Run one pipeline; True on success, otherwise the end of its log is printed."""
    environment, program, plot = PIPELINES[name]
    for needed in {".venv", environment}:
        done = subprocess.run(["make", "--silent", f"{needed}/.ready"], cwd=ROOT, check=False)
        if done.returncode != 0:
            return False
    out.mkdir(parents=True, exist_ok=True)
    print(f"== {name}", flush=True)
    command = [str(ROOT / environment / "bin" / "python"), str(HERE / program), "--out", str(out)]
    command += ["--input", given] if given else []
    log = out / "log.txt"
    with log.open("w") as errors:
        done = subprocess.run(command, stderr=errors, env={**os.environ, **SETTINGS}, check=False)
    if done.returncode != 0:
        print(f"{name} failed; the end of {log}:\n{log.read_text()[-3000:]}", file=sys.stderr)
        return False
    draw = f"import sys, pathlib, plots; print('plot:', plots.{plot}(pathlib.Path(sys.argv[1])))"
    python = str(ROOT / ".venv" / "bin" / "python")
    return subprocess.run([python, "-c", draw, str(out)], cwd=HERE, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
