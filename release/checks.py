"""Checks of the files of a release: metadata, RECORD, content, compiled modules."""

from __future__ import annotations

import base64
import csv
import email.parser
import hashlib
import io
import json
import re
import runpy
import tarfile
import zipfile
from typing import TYPE_CHECKING

from release.common import ROOT, SUPPORTED, ReleaseError, run

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

TWINS = ("headrace/protocol/records/_batch", "headrace/protocol/transport/_multipart")
_RELATIVE = re.compile(r"\]\((?![a-z]+:|#)")
_VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(f"{sys.argv[1]} is not CycloneDX 1.6: {error}" if error else 0)
"""
# Folders of the repository that are not installed.
NOT_INSTALLED = ("tests/", "benchmarks/", "docs/", "release/", "changelog.d/", "examples/")


def check_metadata(text: str, name: str) -> Message:
    """What an index requires of METADATA or PKG-INFO, and what its page needs. Errors: ReleaseError."""
    found = email.parser.Parser().parsestr(text)
    for field in ("Metadata-Version", "Name", "Version", "Summary", "Requires-Python", "License-Expression"):
        _require(bool(found[field]), f"{name}: no {field}")
    _require(found["Description-Content-Type"] == "text/markdown", f"{name}: the README is not Markdown")
    readme = str(found.get_payload())
    _require(len(readme) > 1000, f"{name}: no README")
    relative = _RELATIVE.search(readme)
    _require(relative is None, f"{name}: a relative link in the README: {relative}")
    _require(len(found["Summary"]) <= 512, f"{name}: the summary is too long")
    for version in SUPPORTED:
        classifier = f"Programming Language :: Python :: {version}"
        _require(classifier in (found.get_all("Classifier") or []), f"{name}: no classifier of {version}")
    return found


def check_sdist(path: Path, source: Path) -> None:
    """Whether everything that a build needs is in it. Errors: ReleaseError."""
    with tarfile.open(path) as files:
        names = {entry.name.partition("/")[2] for entry in files.getmembers() if entry.isfile()}
        info = next(entry for entry in files.getmembers() if entry.name.endswith("/PKG-INFO"))
        data = files.extractfile(info)
        assert data is not None
        check_metadata(data.read().decode(), path.name)
    needed = {"pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE", "py.typed"}
    needed |= {str(each.relative_to(source)) for each in source.glob("protocol/*/*.p[yx]*")}
    _require(needed <= names, f"{path.name}: {sorted(needed - names)} are missing")


def check_wheel(path: Path) -> None:
    """Metadata, hashes of RECORD, tags, compiled modules, no other files. Errors: ReleaseError."""
    with zipfile.ZipFile(path) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        info = record.removesuffix("RECORD")
        check_metadata(files.read(f"{info}METADATA").decode(), path.name)
        rows = list(csv.reader(io.StringIO(files.read(record).decode())))
        _require(
            {row[0] for row in rows} == names, f"{path.name}: RECORD does not have the files of the wheel"
        )
        for name, digest, _size in rows:
            if name != record:
                _require(digest == _digest(files.read(name)), f"{path.name}: {name} is not as in RECORD")
    _require("manylinux" in path.name, f"{path.name}: not a manylinux wheel")
    tag = path.name.split("-")[2].replace("cp", "cpython-")
    for twin in TWINS:
        built = [name for name in names if name.startswith(f"{twin}.{tag}")]
        _require(len(built) == 1, f"{path.name}: {twin} is not compiled")
    hot = runpy.run_path(str(ROOT / "runtime" / "compiled_io.py"))["HOT_MODULES"]
    pattern = re.compile(rf"(.*)\.[0-9a-f]{{12}}\.{tag}.*\.so")
    compiled = {match[1].replace("/", ".") for name in names if (match := pattern.fullmatch(name))}
    _require(compiled == hot, f"{path.name}: not compiled: {sorted(hot - compiled)}")
    for name in names:
        foreign = name.removeprefix("headrace/").startswith(NOT_INSTALLED)
        _require(not foreign, f"{path.name}: {name} does not belong into the wheel")


def check_sbom(text: str, metadata: Message, name: str) -> None:
    """Whether it names the package and all that it requires on every system. Its schema: `validate_sbom`.
    Errors: ReleaseError."""
    components = {normal(each["name"]): each["version"] for each in json.loads(text)["components"]}
    found = components.get(normal(metadata["Name"]))
    _require(found == metadata["Version"], f"{name}: it is of version {found}, not {metadata['Version']}")
    required = [each for each in metadata.get_all("Requires-Dist") or [] if ";" not in each]
    missing = {normal(re.split(r"[\[>=<!~ ;]", each)[0]) for each in required} - components.keys()
    _require(not missing, f"{name}: {', '.join(sorted(missing))} are missing")


def validate_sbom(python: Path, path: Path) -> None:
    """Validate it by the schema of CycloneDX, which cyclonedx-py leaves out where it lacks a package.
    `python`: of an environment with cyclonedx-bom. Errors: ReleaseError."""
    run(python, "-c", _VALIDATE, path)


def normal(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def metadata_of(wheel: Path) -> Message:
    """METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return email.parser.Parser().parsestr(files.read(name).decode())


def _digest(data: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={value}"


def _require(is_met: bool, message: str) -> None:
    if not is_met:
        raise ReleaseError(message)
