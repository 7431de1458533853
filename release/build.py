"""Builds the files of a release from a commit: sdist, a wheel for each CPython, SBOM, checksums.

Wheels are built from the sdist, with the compiled modules, and repaired by auditwheel. Two builds of a commit
give the same bytes: names of folders, times and the order of files do not go into them. `--twice` checks it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.checks import check_sbom, check_sdist, check_wheel, metadata_of, validate_sbom
from release.common import (
    BUILD_TOOLS,
    REPAIR_TOOLS,
    ROOT,
    SUPPORTED,
    ReleaseError,
    environment,
    git,
    interpreters,
    run,
    version_of,
)
from release.try_built import try_all

SUMS = "SHA256SUMS"


def export(revision: str, folder: Path) -> None:
    """The files of a commit."""
    archive = folder / "source.tar"
    run("git", "archive", "--format=tar", "-o", archive, revision, cwd=ROOT)
    with tarfile.open(archive) as files:
        files.extractall(folder / "source", filter="data")
    archive.unlink()


def normalized(path: Path, epoch: int) -> None:
    """Rewrite a .tar.gz with sorted entries, one time and no owner."""
    with tarfile.open(path) as found:
        entries = sorted(found.getmembers(), key=lambda entry: entry.name)
        content = {entry.name: found.extractfile(entry) for entry in entries if entry.isfile()}
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as made:
            for entry in entries:
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
                entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                entry.pax_headers = {}
                made.addfile(entry, content.get(entry.name))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        packed.write(data.getvalue())


def build(revision: str, out: Path, pythons: dict[str, Path], work: Path) -> list[Path]:
    """The sdist and the wheels, checked. Errors: ReleaseError."""
    epoch = int(git("log", "-1", "--format=%ct", revision))
    export(revision, work)
    version = version_of(work / "source")
    env = {
        "SOURCE_DATE_EPOCH": str(epoch),
        "PYTHONHASHSEED": "0",
        "HEADRACE_REQUIRE_CODEC": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    made: list[Path] = []
    out.mkdir(parents=True, exist_ok=True)
    sdist: Path | None = None
    tools = environment(work / "env-tools", next(iter(pythons.values())), *REPAIR_TOOLS)
    env["PATH"] = f"{tools.parent}:{os.environ['PATH']}"
    for name, python in pythons.items():
        inside = environment(work / f"env-{name}", python, *BUILD_TOOLS)
        if sdist is None:
            run(inside, "-m", "build", "--no-isolation", "--sdist", "-o", out, work / "source", env=env)
            sdist = out / f"headrace-{version}.tar.gz"
            normalized(sdist, epoch)
            check_sdist(sdist, work / "source")
            made.append(sdist)
        raw = _wheel(inside, name, sdist, work, env)
        made.append(_repaired(tools, raw, out, env))
        print(f"built {made[-1].name}", flush=True)
    return made


def _wheel(inside: Path, name: str, sdist: Path, work: Path, env: dict[str, str]) -> Path:
    unpacked, raw = work / f"from-sdist-{name}", work / f"raw-{name}"
    with tarfile.open(sdist) as files:
        files.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    # neither the folder nor debug information goes into the code
    flags = f"{os.environ.get('CFLAGS', '')} -g0 -ffile-prefix-map={source}=."
    run(
        *(inside, "-m", "build", "--no-isolation", "--wheel", "-o", raw, source),
        env={**env, "CFLAGS": flags.strip(), "LDFLAGS": "-Wl,--build-id=none"},
    )
    (built,) = raw.glob("*.whl")
    return built


def _repaired(tools: Path, built: Path, out: Path, env: dict[str, str]) -> Path:
    before = set(out.glob("*.whl"))
    run(tools, "-m", "auditwheel", "repair", "--wheel-dir", out, built, env=env)
    (repaired,) = set(out.glob("*.whl")) - before
    check_wheel(repaired)
    return repaired


def write_sbom(wheel: Path, python: Path, tools: Path, out: Path, work: Path) -> Path:
    """CycloneDX of the wheel and of everything that it installs."""
    inside = environment(work / "sbom", python, str(wheel))
    run(inside, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
    target = out / f"{wheel.name.split('-cp')[0]}.cdx.json"
    run(
        *(
            tools,
            "-m",
            "cyclonedx_py",
            "environment",
            "--output-reproducible",
            "--spec-version",
            "1.6",
        ),
        *("--output-format", "JSON", "--validate", "-o", target, inside),
    )
    validate_sbom(tools, target)
    check_sbom(target.read_text(), metadata_of(wheel), target.name)
    return target


def write_sums(files: list[Path], out: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)]
    (out / SUMS).write_text("".join(lines))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--only", action="append", help="CPython versions, such as 3.11 [default: all]")
    parser.add_argument("--partial", action="store_true", help="accept that an interpreter is missing")
    parser.add_argument(
        "--try", dest="is_tried", action="store_true", help="use each file in a fresh environment"
    )
    parser.add_argument("--twice", action="store_true", help="build twice and compare")
    given = parser.parse_args()
    wanted = given.only or SUPPORTED
    pythons = {name: path for name, path in interpreters().items() if name in wanted}
    missing = [name for name in wanted if name not in pythons]
    if missing:
        print(f"no CPython {', '.join(missing)} with headers on this machine: no wheel for it", flush=True)
        if not given.partial or not pythons:
            raise ReleaseError("install it (pyenv, or the distribution), or accept that with --partial")
    if given.out.exists() and any(given.out.iterdir()):
        raise ReleaseError(f"{given.out} is not empty: remove it, so that only this release is in it")
    with tempfile.TemporaryDirectory(prefix="headrace-release-") as name:
        work = Path(name)
        first = work / "first"
        first.mkdir()
        made = build(given.revision, given.out, pythons, first)
        if given.twice:
            _check_same(made, given.revision, pythons, work)
        if given.is_tried:
            try_all(made)
        tools = first / "env-tools" / "bin" / "python"
        wheel = next(path for path in made if path.suffix == ".whl")
        made.append(write_sbom(wheel, next(iter(pythons.values())), tools, given.out, work))
    write_sums(made, given.out)
    for path in sorted(given.out.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")


def _check_same(made: list[Path], revision: str, pythons: dict[str, Path], work: Path) -> None:
    second = work / "a second folder"
    second.mkdir()
    for one, other in zip(made, build(revision, work / "out", pythons, second), strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise ReleaseError(f"{one.name}: a second build has other bytes")
    print(f"{len(made)} files: two builds are equal")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
