"""The content of a bundle: masked files within a budget, and what is missing. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .masking import Masker

KEEP_HEAD, KEEP_TAIL = "head", "tail"
MANIFEST = "manifest.json"


class Missing(msgspec.Struct, frozen=True):
    """What could not be collected, and why."""

    what: str
    why: str


class Parts:
    """Files by path. Each is masked when it is added; files over the budget are cut, later ones left out."""

    def __init__(self, masker: Masker, max_bytes: int, max_file_bytes: int) -> None:
        self._masker = masker
        self._left, self._max_file = max_bytes, max_file_bytes
        self.files: dict[str, bytes] = {}
        self.missing: list[Missing] = []

    def add_text(self, path: str, text: str, keep: str = KEEP_HEAD) -> None:
        """Add a file; `keep` says which end of a long one is kept."""
        # Order: masked before it is cut, so that no half of a secret is left.
        self._add(path, self._masker.mask(text), keep)

    def add_json(self, path: str, value: Any) -> None:
        """Add a value as indented JSON. Its texts are masked before it is encoded, which may hide a form."""
        value = self._masker.mask_value(json.loads(json.dumps(value, default=str)))
        self._add(path, self._masker.mask_known(json.dumps(value, indent=1)), KEEP_HEAD)

    def _add(self, path: str, text: str, keep: str) -> None:
        data = text.encode(errors="replace")
        limit = min(self._max_file, self._left)
        if len(data) > limit:
            self.miss(path, f"cut: {limit} of {len(data)} bytes, the {keep}")
            data = data[:limit] if keep == KEEP_HEAD else data[len(data) - limit :]
        if data or not text:
            self.files[path] = data
            self._left -= len(data)

    def miss(self, what: str, why: object) -> None:
        """Record what is missing."""
        self.missing.append(Missing(what, self._masker.mask(str(why))))

    def manifest(self, facts: Mapping[str, Any]) -> bytes:
        """The list of files with their sizes and checksums, and what is missing."""
        found = {
            **facts,
            "files": [
                {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                for path, data in sorted(self.files.items())
            ],
            "missing": [{"what": each.what, "why": each.why} for each in self.missing],
        }
        return json.dumps(found, indent=1, default=str).encode()
