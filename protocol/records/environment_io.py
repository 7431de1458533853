"""What the environment gives the codec: its choice, and a secret."""

from __future__ import annotations

import os
import secrets
from functools import cache


def codec_choice() -> str | None:
    """The value of HEADRACE_CODEC, or None when it is not set or empty."""
    return os.environ.get("HEADRACE_CODEC") or None


@cache
def process_secret() -> bytes:
    """16 random bytes, drawn once in the life of the process: the key of hashes that nobody may foresee."""
    return secrets.token_bytes(16)
