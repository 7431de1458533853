"""Makes a release: `make release VERSION=1.2.3`.

On a clean branch without the tag v1.2.3 it sets the version, moves the fragments of changelog.d under a
heading of the release, commits, and tags the commit. Then, and again later for a tag that exists, it builds
the files of the tag into dist/ (release/build.py). It publishes nothing: the last line says what to push and
upload.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import ROOT, ReleaseError, git, run, version_of, with_version

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?")
_UNRELEASED = "## Unreleased\n"


def released(changelog: str, version: str, date: str) -> str:
    """The changelog with its unreleased entries under the heading of the release. Errors: ReleaseError."""
    if f"\n## {version} " in changelog:
        raise ReleaseError(f"CHANGELOG.md has version {version} already")
    start = changelog.find(_UNRELEASED)
    if start < 0:
        raise ReleaseError("CHANGELOG.md has no heading Unreleased")
    rest = changelog[start + len(_UNRELEASED) :]
    end = re.search(r"^## ", rest, re.MULTILINE)
    body = rest[: end.start() if end else len(rest)]
    if "\n- " not in body:
        raise ReleaseError("nothing is unreleased: CHANGELOG.md has no new entry")
    return f"{changelog[:start]}{_UNRELEASED}{_areas()}\n## {version} ({date})\n{rest}"


def _areas() -> str:
    """Empty sections for the next entries."""
    areas = runpy.run_path(str(ROOT / "changelog.d" / "assemble.py"))["AREAS"]
    return "".join(f"\n### {area}\n" for area in areas)


def check_version(version: str, current: str) -> None:
    """Errors: ReleaseError for text that is no version, or not above the current one."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"VERSION={version!r} is not like 1.2.3 or 1.2.3rc1")
    if _key(version) < _key(current):
        raise ReleaseError(f"{version} is below the current version, {current}")


def _key(version: str) -> tuple[int, int, int, int, int]:
    numbers, _, pre = re.sub(r"(a|b|rc)", r"-\1", version).partition("-")
    major, minor, patch = map(int, numbers.split("."))
    rank = {"a": 0, "b": 1, "rc": 2, "": 3}[pre.rstrip("0123456789")]
    return major, minor, patch, rank, int(pre.lstrip("abrc") or 0)


def prepare(version: str) -> None:
    """Commit the version and the changelog, and tag the commit. Errors: ReleaseError."""
    check_version(version, version_of(ROOT))
    if git("status", "--porcelain", "--untracked-files=no"):
        raise ReleaseError("the working tree has changes: commit or stash them")
    run(sys.executable, ROOT / "changelog.d" / "assemble.py")
    changelog, module = ROOT / "CHANGELOG.md", ROOT / "__init__.py"
    changelog.write_text(released(changelog.read_text(), version, time.strftime("%Y-%m-%d", time.gmtime())))
    module.write_text(with_version(module.read_text(), version))
    git("add", "--all", "changelog.d", "CHANGELOG.md", "__init__.py")
    git("commit", "--quiet", "-m", f"release: {version}")
    git("tag", "--annotate", "-m", f"headrace {version}", f"v{version}")
    print(f"committed and tagged v{version}")


def check_tag(version: str) -> None:
    """Whether the tag is of this version, with all its entries in the changelog. Errors: ReleaseError."""
    tag = f"v{version}"
    module = git("show", f"{tag}:__init__.py")
    if f'__version__ = "{version}"' not in module:
        raise ReleaseError(f"{tag} has another version in __init__.py")
    if f"\n## {version} (" not in git("show", f"{tag}:CHANGELOG.md"):
        raise ReleaseError(f"CHANGELOG.md of {tag} has no section of {version}")
    left = [
        name for name in git("ls-tree", "--name-only", tag, "changelog.d/").split() if name.endswith(".md")
    ]
    if left:
        raise ReleaseError(f"{tag} has fragments that are not in its CHANGELOG.md: {', '.join(left)}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("build", nargs="*", help="options of release/build.py, after --")
    given = parser.parse_args()
    version = given.version.removeprefix("v")
    check_version(version, "0.0.0")
    if not git("tag", "--list", f"v{version}"):
        prepare(version)
    check_tag(version)
    command = (sys.executable, ROOT / "release" / "build.py", "--revision", f"v{version}", "--try")
    run(*command, *given.build, quiet=False)
    print(f"publish: git push origin HEAD v{version}, and upload the files of dist/ to the index")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
