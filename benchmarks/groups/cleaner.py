"""The groups of the log cleaner: compaction of one log by one thread of either system's cleaner. Pure."""

from __future__ import annotations

from ..cells.cleaner import CleanCell
from ..constants import HEADRACE, KAFKA, MAP_BYTES, MB
from ..group import Comparison, Group

RECORDS_PER_KEY = 4  # three of four records are removed
CODEC_ALONE = "codec alone"


def _cleaning(size: int, count: int, compression: str = "none", *, in_quick: bool = False) -> Group:
    spec = {"size": size, "count": count, "compression": compression, "records_per_key": RECORDS_PER_KEY}
    short, title = ("1k", "1 KB") if size == 1000 else (str(size), f"{size} B")
    if compression != "none":
        short, title = f"{short}-{compression}", f"{title}, {compression}"
    return Group(
        f"cleaner-{short}",
        f"compaction of a closed log by one thread, {title}, {RECORDS_PER_KEY} records per key",
        (
            CleanCell(KAFKA, KAFKA, spec),
            CleanCell(HEADRACE, HEADRACE, {**spec, "loop": "clean"}),
            CleanCell(CODEC_ALONE, HEADRACE, {**spec, "loop": "codec"}),
        ),
        (
            Comparison(HEADRACE, KAFKA, MB, 1.0, title=f"cleaner, {title}: MB/s of log"),
            Comparison(HEADRACE, CODEC_ALONE, MB),
            Comparison(HEADRACE, KAFKA, MAP_BYTES, 1.0, at_least=False,
                       title=f"cleaner, {title}: bytes of map per key"),
        ),
        in_quick=in_quick,
        nodes=0,
        pairs=(3, 1),
    )  # fmt: skip


CLEANER: tuple[Group, ...] = (
    _cleaning(100, 2_000_000),
    _cleaning(1000, 400_000, in_quick=True),
    _cleaning(1000, 400_000, "lz4"),
    _cleaning(1000, 400_000, "zstd"),
)
