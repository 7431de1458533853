"""The groups of ceilings: bare loops without a system, and headrace's share of them. Pure."""

from __future__ import annotations

from ..cells.bare import BareCell, LocalCell
from ..cells.throughput import ProduceCell, RawCell
from ..constants import BARE, CPU_PER_GB, HEADRACE, MB
from ..group import RECEIVE, RECEIVE_AND_WRITE, Comparison, Group

SHARE_GOAL = 0.6
BATCH, LARGE_BATCH = 65_536, 1 << 20
TITLE = "64-KB batches: MB/s"
OF_SIX = " x6"


def _bare(name: str, mode: str, size: int, count: int, batches: int = 1) -> BareCell:
    spec = {"mode": mode, "size": size, "count": count, "batches": batches, "window": 32 // batches}
    return BareCell(name, BARE, spec)


def _raw(name: str, count: int, batches: int) -> RawCell:
    return RawCell(
        name, HEADRACE, {"size": BATCH, "count": count, "batches": batches, "window": 32 // batches}
    )


def _produce(api: str) -> ProduceCell:
    return ProduceCell(api, HEADRACE, {"api": api, "size": 1000, "count": 1_000_000})


def _share(above: str, below: str, title: str, *, is_beside: bool = False) -> Comparison:
    return Comparison(above, below, MB, SHARE_GOAL, title=f"{title}, {TITLE}", is_beside=is_beside)


BARE_LOOPS: tuple[Group, ...] = (
    Group(
        "bare-64k",
        "bare ceilings at 64 KB, and headrace under them",
        (
            _bare(RECEIVE_AND_WRITE, "write", BATCH, 24_000),
            _bare(RECEIVE, "drop", BATCH, 24_000),
            _raw("raw produce", 24_000, 1),
            _produce("send_many"),
            _produce("send_arrow"),
        ),
        (
            _share("raw produce", RECEIVE_AND_WRITE, "produce requests"),
            *(_share(api, RECEIVE_AND_WRITE, f"`{api}`", is_beside=True)
              for api in ("send_many", "send_arrow")),
            Comparison("raw produce", RECEIVE_AND_WRITE, CPU_PER_GB, at_least=False),
        ),
    ),
    Group(
        "bare-6x64k",
        "messages of six 64-KB batches, as a producer of six busy partitions sends them",
        (
            _bare(RECEIVE_AND_WRITE + OF_SIX, "write", BATCH, 4_000, 6),
            _raw("raw produce" + OF_SIX, 4_000, 6),
        ),
        (
            _share("raw produce" + OF_SIX, RECEIVE_AND_WRITE + OF_SIX, "produce requests of six batches",
                   is_beside=True),
            Comparison("raw produce" + OF_SIX, RECEIVE_AND_WRITE + OF_SIX, CPU_PER_GB, at_least=False),
        ),
    ),
    Group(
        "bare-1m",
        "bare ceilings at 1 MB, the page cache and the checksum",
        (
            _bare(RECEIVE_AND_WRITE, "write", LARGE_BATCH, 1_000),
            _bare(RECEIVE, "drop", LARGE_BATCH, 1_900),
            LocalCell("page cache", BARE, {"loop": "pagecache"}),
            LocalCell("CRC-32C", BARE, {"loop": "crc", "count": 100_000}),
        ),
        in_quick=False,
    ),
)  # fmt: skip
