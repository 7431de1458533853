"""Inputs of the codec from the environment: its selection, and a random secret."""

from __future__ import annotations

import os
import secrets
from functools import cache


def codec_choice() -> str | None:
    """The value of HEADRACE_CODEC, or None if it is unset or empty."""
    return os.environ.get("HEADRACE_CODEC") or None


@cache
def process_secret() -> bytes:
    """16 random bytes, drawn once per process: the key of hashes that clients must not be able to predict."""
    return secrets.token_bytes(16)
