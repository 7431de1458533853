"""Tries the files of a release in fresh environments: records through a cluster, and tests of the codec.

Each wheel with its CPython; the sdist without a C compiler, where the readable twins must run with a notice.
`make release` does it with all that it builds; alone: `release/try_built.py dist/*.whl dist/*.tar.gz`.
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
from release.common import ROOT, ReleaseError, environment, interpreters, python_of, run
from release.try_extras import use_of

TEST_TOOLS = (
    "hypothesis>=6.130",
    "kafka-python>=2.2",  # hashes of keys are compared with its own
    "pytest>=8.3",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
)
CODEC_TESTS = (
    "tests/unit/protocol/records",
    "tests/contract/test_codec_twins.py",
    "tests/contract/test_codec_fuzz.py",
    "tests/contract/test_walking.py",
)
NOTICE = "the compiled record codec is not built"


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


def attempt_sdist(sdist: Path, folder: Path) -> str:
    """Install it where no program is on the PATH but those of the environment. Errors: ReleaseError."""
    inside = environment(folder / "venv", next(iter(interpreters().values())))
    env = {"PATH": str(inside.parent), "CC": "", "HEADRACE_REQUIRE_CODEC": "", "PYTHONPATH": ""}
    run(inside, "-m", "pip", "install", "--quiet", "--no-compile", sdist, env=env)
    merged = "import runpy, sys; sys.stderr = sys.stdout; runpy.run_path(sys.argv[1])"
    notices = run(inside, "-c", merged, use_of(""), cwd=folder, env=env).count(NOTICE)
    if notices != 1:
        raise ReleaseError(f"{sdist.name}: a process logged the notice of the slow codec {notices} times")
    version = run(inside, "-m", "headrace", "version", cwd=folder, env=env)
    if "codec: python" not in " ".join(version.split()):
        raise ReleaseError(f"the version does not show the codec of Python: {version}")
    return "runs as Python without a compiler, with one notice"


def try_all(built: Sequence[Path]) -> None:
    """Errors: ReleaseError of the first one that fails."""
    for path in built:
        began = time.monotonic()
        one = attempt if path.suffix == ".whl" else attempt_sdist
        with tempfile.TemporaryDirectory(prefix="headrace-built-") as folder:
            outcome = one(path.resolve(), Path(folder))
        print(f"tried {path.name}: {outcome}; {time.monotonic() - began:.0f} s in all", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("built", type=Path, nargs="+")
    try_all(parser.parse_args().built)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
