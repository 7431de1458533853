"""Tries wheels in fresh environments of their CPythons: records through a cluster, tests of the codec.

`release/try_wheels.py dist/*.whl`; `make release` does it with the wheels that it builds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import ROOT, ReleaseError, environment, python_of, run
from release.try_extras import use_of

TEST_TOOLS = ("hypothesis>=6.130", "pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6")
CODEC_TESTS = (
    "tests/unit/protocol/records",
    "tests/contract/test_codec_twins.py",
    "tests/contract/test_codec_fuzz.py",
    "tests/contract/test_walking.py",
)


def attempt(wheel: Path, folder: Path) -> str:
    """What the tests of the codec report in an environment with the wheel. Errors: ReleaseError."""
    inside = environment(folder / "venv", python_of(wheel), str(wheel), *TEST_TOOLS, options=["--no-compile"])
    run(inside, "-m", "pip", "check")
    env = {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": ""}
    run(inside, use_of(""), cwd=folder, env=env)
    version = run(inside, "-m", "headrace", "version", cwd=folder, env=env)
    if "compiled" not in version:
        raise ReleaseError(f"the codec is not compiled: {version}")
    tests = [ROOT / name for name in CODEC_TESTS]
    # -I: not the package's folders below the repository
    command = (inside, "-I", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir", ROOT)
    return run(*command, *tests, cwd=folder, env=env).splitlines()[-1]


def try_all(wheels: Sequence[Path]) -> None:
    """Errors: ReleaseError of the first one that fails."""
    for wheel in wheels:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="headrace-wheel-") as folder:
            outcome = attempt(wheel.resolve(), Path(folder))
        print(f"tried {wheel.name}: {outcome}; {time.monotonic() - began:.0f} s in all", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", type=Path, nargs="+")
    try_all(parser.parse_args().wheels)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
