"""Files with secrets."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only. Errors: OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # mode 0600
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
