"""What all tests share: the fakes on the import path, and no Ray by accident."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Before anything imports Ray: no token is written into the developer's home folder.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

sys.path.insert(0, str(Path(__file__).parent / "fakes"))
