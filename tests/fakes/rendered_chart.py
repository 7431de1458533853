"""What Helm makes of the chart: rendered once, since CI has no Helm, and compared by `make deploy-check`."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "headrace"
RENDERED = ROOT / "tests" / "unit" / "deploy" / "rendered"
KUBERNETES = "1.33.0"
# The arguments of `helm template` by the name of the file.
VARIANTS = {"default": (), "small": ("--set", "antiAffinity=hard,controllers.replicas=1")}


def chart_digest() -> str:
    """Changes with every file of the chart."""
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
