"""The pure parts of a release: versions, the changelog, checks of metadata."""

import contextlib
import json
import re
import runpy
import sys
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))
from release.checks import check_metadata, check_sbom  # noqa: E402
from release.common import REPAIR_TOOLS, ReleaseError, version_of, with_version  # noqa: E402
from release.make_release import check_version, released  # noqa: E402
from release.try_extras import extras, use_of  # noqa: E402

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Servers\n\n#### Added\n- x: is new.\n\n## 0.1.0 (2026-01-01)\n"
)


def test_version_stands_in_one_place() -> None:
    """pyproject.toml reads it from there."""
    assert '\nversion = "' not in (ROOT / "pyproject.toml").read_text()
    text = with_version((ROOT / "__init__.py").read_text(), "9.8.7")
    assert '\n__version__ = "9.8.7"\n' in text
    assert version_of(ROOT) in (ROOT / "__init__.py").read_text()


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3-rc1", "0.0.9", "1.0.0rc1 ", ""])
def test_wrong_versions_are_refused(version: str) -> None:
    with pytest.raises(ReleaseError):
        check_version(version, "0.1.0")


def test_prereleases_are_below_their_release() -> None:
    check_version("0.2.0rc1", "0.1.0")
    check_version("0.2.0", "0.2.0rc1")
    with pytest.raises(ReleaseError):
        check_version("0.2.0rc1", "0.2.0")
    with pytest.raises(ReleaseError):
        check_version("0.9.0", "0.10.0")


def test_unreleased_entries_move_under_the_release() -> None:
    """New fragments find empty areas above it."""
    text = released(CHANGELOG, "0.2.0", "2026-02-03")
    head, rest = text.split("\n## 0.2.0 (2026-02-03)\n")
    assert "- x: is new." in rest
    assert "## 0.1.0" in rest
    assert "- " not in head
    assemble = runpy.run_path(str(ROOT / "changelog.d" / "assemble.py"))
    assert "- y: too.\n" in assemble["with_entry"](text, "Servers", "added", "y: too.").split("## 0.2.0")[0]
    with pytest.raises(ReleaseError, match="nothing is unreleased"):
        released(text, "0.3.0", "2026-02-04")
    with pytest.raises(ReleaseError, match="already"):
        released(text, "0.2.0", "2026-02-04")


def test_metadata_without_a_field_is_found() -> None:
    with pytest.raises(ReleaseError, match="no Summary"):
        check_metadata("Metadata-Version: 2.4\nName: headrace\nVersion: 1\n\n", "x.whl")


def test_tools_of_a_release_are_not_in_the_development_environment() -> None:
    """cyclonedx-bom installs what makes each import of Ray take 1.5 s more CPU time."""
    extras_of = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {re.split(r"[\[>=<;]", each)[0] for name in ("dev", "test") for each in extras_of[name]}
    assert not packages & {each.partition(">=")[0] for each in REPAIR_TOOLS}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ({"headrace": "1.0.0", "ray": "2.60", "opentelemetry_sdk": "1.30"}, None),
        ({"headrace": "0.9.0", "ray": "2.60", "opentelemetry_sdk": "1.30"}, "version 0.9.0, not 1.0.0"),
        ({"headrace": "1.0.0", "opentelemetry_sdk": "1.30"}, "ray are missing"),
    ],
)
def test_sbom_names_the_package_and_what_it_requires(components: dict[str, str], error: str | None) -> None:
    metadata = Parser().parsestr(
        "Name: headrace\nVersion: 1.0.0\nRequires-Dist: ray[default]>=2.60\n"
        "Requires-Dist: opentelemetry-sdk>=1\nRequires-Dist: uvloop>=1; sys_platform != 'win32'\n\n"
    )
    text = json.dumps({"components": [{"name": name, "version": each} for name, each in components.items()]})
    with pytest.raises(ReleaseError, match=error) if error else contextlib.nullcontext():
        check_sbom(text, metadata, "x.cdx.json")


def test_every_extra_has_a_use_and_a_line_in_the_readme() -> None:
    """A new extra: add a program that uses it to release/uses, and a line to README.md."""
    assert [name for name in extras() if not use_of(name).exists()] == []
    readme = (ROOT / "README.md").read_text()
    assert [name for name in extras() if f"`{name}`" not in readme] == []
