#!/usr/bin/env python3
"""Run the examples of headrace.stream, each on a cluster of its own in its process: `run.py fraud`.

Without a name it runs all of them. The first run makes the environment.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in {"common", "run"})


def main() -> int:
    """The exit code, 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    chosen = parser.parse_args().names or NAMES
    unknown = set(chosen) - set(NAMES)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}, but {', '.join(NAMES)}")
    made = subprocess.run(["make", "--silent", "setup"], cwd=ROOT, check=False)
    if made.returncode != 0:
        return made.returncode
    for name in chosen:
        print(f"== {name}", flush=True)
        done = subprocess.run([ROOT / ".venv" / "bin" / "python", HERE / f"{name}.py"], check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
