"""What the environment says about the codec."""

from __future__ import annotations

import os


def codec_choice() -> str | None:
    """The value of HEADRACE_CODEC, or None when it is not set or empty."""
    return os.environ.get("HEADRACE_CODEC") or None
