"""What a server with `--read-only` and masks does not do: changes, and documents with masked fields. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ..console.decoding import decode
from ..console.masking import MASK, Masks
from ..web.calls_io import encode
from ..web.origins import SAFE_METHODS
from ..web.problems import Problem
from .formats import AUTO, BINARY, JSON, MASKED, ShownData, shown
from .shapes import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..console.masking import MaskRule


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Those of a server, the same for all users."""

    is_read_only: bool = False
    masks: tuple[MaskRule, ...] = ()

    def check_method(self, method: str) -> None:
        """Errors: Problem 403 for a change of a read-only server."""
        if self.is_read_only and method not in SAFE_METHODS:
            raise Problem(403, "this server is read-only: it was started with --read-only", 40301)

    def of_topic(self, topic: str) -> MaskedRecords:
        """How records of a topic are shown."""
        return MaskedRecords(self.masks, topic)


NO_RESTRICTIONS = Restrictions()


class MaskedRecords:
    """Keys, values and headers of one topic without their masked fields.

    A value that has a masked field is masked as a whole unless it is shown as a JSON object or list: another
    format must not reveal the field.
    """

    def __init__(self, rules: Iterable[MaskRule], topic: str) -> None:
        self._masks = Masks(rules, topic)

    def shown(self, root: str, data: bytes | None, wanted: str) -> ShownData | None:
        """The key or value (`root`) in version 3."""
        if data is None or not self._masks.hides(root):
            return shown(data, wanted)
        masked = self._json(root, data) if wanted in (AUTO, JSON) else None
        return ShownData(JSON if masked else MASKED, masked, len(data))

    def embedded(self, root: str, data: bytes | None, wanted: str) -> Any:
        """The masked key or value in version 2, which has JSON, or base64 for BINARY."""
        if data is None:
            return None
        if wanted == BINARY:
            return base64.b64encode(MASK.encode()).decode()
        return self._json(root, data) or MASK

    def hides(self, root: str) -> bool:
        """Whether a rule is about the key, or about the value."""
        return self._masks.hides(root)

    def headers(self, given: Iterable[tuple[str, bytes | None]]) -> list[RecordHeader]:
        """The headers; masked ones have the text of the mask."""
        values = ((name, MASK.encode() if self._masks.hides_header(name) else value) for name, value in given)
        return [
            RecordHeader(name, None if value is None else base64.b64encode(value).decode())
            for name, value in values
        ]

    def _json(self, root: str, data: bytes) -> msgspec.Raw | None:
        """The JSON object or list without its masked fields; None if it is something else, or masked."""
        masked = self._masks.applied(root, decode(data, "json"))
        if masked.format != "json":
            return None
        try:
            return msgspec.Raw(encode(masked.value))
        except OverflowError:  # a whole number of more than 64 bits
            return None
