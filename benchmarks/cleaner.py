"""The groups of the cleaner: compaction of one log by one thread, beside Apache Kafka's own cleaner. Pure."""

from __future__ import annotations

from .group import HEADRACE, KAFKA, MAP_BYTES, MB, Cell, Comparison, Group

# Under a quarter as many keys as records: three of four records go.
RECORDS_PER_KEY = 4


def _cleaning(size: int, count: int, compression: str = "none", *, in_quick: bool = False) -> Group:
    spec = {"size": size, "count": count, "compression": compression, "records_per_key": RECORDS_PER_KEY}
    short, title = ("1k", "1 KB") if size == 1000 else (str(size), f"{size} B")
    if compression != "none":
        short, title = f"{short}-{compression}", f"{title}, {compression}"
    ours = {**spec, "loop": "clean"}
    what = f"cleaner, {title}: "
    return Group(
        f"cleaner-{short}",
        f"compaction of a closed log by one thread, {title}, {RECORDS_PER_KEY} records per key",
        (
            Cell(KAFKA, KAFKA, "clean", spec),
            Cell(HEADRACE, HEADRACE, "clean", ours),
            Cell("codec alone", HEADRACE, "clean", {**spec, "loop": "codec"}),
        ),
        (
            Comparison(HEADRACE, KAFKA, MB, 1.0, title=what + "MB/s of log"),
            Comparison(HEADRACE, "codec alone", MB),
            Comparison(HEADRACE, KAFKA, MAP_BYTES, 1.0, at_least=False, title=what + "bytes of map per key"),
        ),
        in_quick=in_quick,
        nodes=0,
        pairs=(3, 1),
    )


CLEANER: tuple[Group, ...] = (
    _cleaning(100, 2_000_000),
    _cleaning(1000, 400_000, in_quick=True),
    _cleaning(1000, 400_000, "lz4"),
    _cleaning(1000, 400_000, "zstd"),
)
