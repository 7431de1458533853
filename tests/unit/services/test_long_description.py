"""The metadata of the package, and the README as package indexes render it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from headrace.services.long_description import REPOSITORY, absolute_links

ROOT = Path(__file__).parents[3]
# What a build reads, without one: no file is written.
METADATA = """
import json, setuptools  # it replaces distutils
from distutils.core import run_setup
found = run_setup("setup.py", stop_after="config").metadata
print(json.dumps({name: getattr(found, name) for name in (
    "name", "author", "long_description", "long_description_content_type", "classifiers", "project_urls",
)}))
"""


@pytest.fixture(scope="module")
def metadata() -> Any:
    """As setuptools reads pyproject.toml and setup.py."""
    command = [sys.executable, "-W", "ignore", "-c", METADATA]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/A.md)", f"[a]({REPOSITORY}/blob/main/docs/A.md)"),
        (
            "[a](docs/A.md#part), [b](B)",
            f"[a]({REPOSITORY}/blob/main/docs/A.md#part), [b]({REPOSITORY}/blob/main/B)",
        ),
        ("![p](docs/p.svg)", f"![p]({REPOSITORY}/raw/main/docs/p.svg)"),
        ("[a](https://h/x)", "[a](https://h/x)"),
        ("[a](#part)", "[a](#part)"),
        ("f(x)[0](y z)", "f(x)[0](y z)"),
    ],
)
def test_relative_links_become_absolute(text: str, expected: str) -> None:
    """Other links stay."""
    assert absolute_links(text) == expected


def test_package_has_no_relative_links(metadata: Any) -> None:
    """Each link of the README leads to a file of the repository or to another host."""
    text = metadata["long_description"]
    assert metadata["long_description_content_type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 20
    for target in targets:
        assert target.startswith(("https://", "#")), target
        if target.startswith(f"{REPOSITORY}/blob/main/"):
            path = target.removeprefix(f"{REPOSITORY}/blob/main/").partition("#")[0]
            assert (ROOT / path).exists(), target


def test_package_names_authors_and_addresses(metadata: Any) -> None:
    """What an index shows beside the README; the addresses are of one repository."""
    assert metadata["author"] == "The headrace authors"
    urls = dict(metadata["project_urls"])
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= urls.keys()
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert "Typing :: Typed" in metadata["classifiers"]
    assert (ROOT / "py.typed").exists()
