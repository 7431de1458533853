"""Opens the snapshots of an instance, as its configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .objects_io import open_objects
from .snapshots_io import Snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from ..config import StreamsConfig


def open_snapshots(config: StreamsConfig, folder: Path) -> Snapshots | None:
    """`folder`: that of the stores of the application. None without snapshot.dir. Errors: ConfigError."""
    if not config.snapshot_dir:
        return None
    objects = open_objects(config.snapshot_dir, config.application_id)
    return Snapshots(objects, folder, config.snapshot_interval_ms, config.snapshot_retention)
