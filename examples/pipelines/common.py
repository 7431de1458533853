"""Shared parts of the pipelines: the log in a topic, tables, results on disk."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import access_log
import headrace
import pyarrow as pa
from headrace.clients.pipeline import write_arrow, write_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINES, SESSIONS, PAGES = "access-log", "sessions", "top-pages"
PARTITIONS = 3


def send_log(bootstrap: str, lines: Sequence[bytes], topic: str = LINES) -> int:
    """Send each request of a log as a record, in the order of the log: the client is the key, so that its
    requests stay in order, and the record has the time of the request. Returns the number of records; other
    lines are skipped."""
    hits = [(line, hit) for line, hit in ((line, access_log.parse(line)) for line in lines) if hit]
    at = pa.array([hit.at * 1000 for _, hit in hits], pa.timestamp("us", "UTC"))
    keys = [hit.client.encode() for _, hit in hits]
    batch = pa.record_batch({"key": keys, "value": [line for line, _ in hits], "timestamp": at})
    options = write_options({"bootstrap": bootstrap, "topic": topic})
    return write_arrow([batch], options).rows


def create(cluster: headrace.LocalCluster, *topics: str) -> None:
    """Create topics with PARTITIONS each and without retention: requests in a log are old."""
    made = (headrace.NewTopic(name, PARTITIONS, configs={"retention.ms": "-1"}) for name in topics)
    with cluster.admin() as admin:
        admin.create_topics(*made).raise_for_errors()


def arguments(description: str) -> argparse.Namespace:
    """--input and --out of a pipeline; `lines` and `source` are the log."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input", help="an access log in Apache's combined format")
    parser.add_argument("--out", default="build/pipelines", help="the folder for its result")
    options = parser.parse_args()
    options.lines, options.source = access_log.find_input(options.input)
    options.out = Path(options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{len(options.lines):,} lines of {options.source}")
    return options


def show(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with right-aligned numbers."""
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in [list(names), *texts]) for place in range(len(names))]
    print(f"\n{title}")
    for row in [list(names), ["-" * width for width in widths], *texts]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_sessions(sessions: Iterable[access_log.Session], pages: Sequence[tuple[str, int]]) -> None:
    """Print the largest sessions, and the most visited pages."""
    found = sorted(sessions, key=lambda each: (-each.hits, each.client, each.start))
    rows = [(each.client, each.hits, (each.end - each.start) // 1000, each.size) for each in found[:10]]
    show(f"sessions: {len(found):,}, the largest", ("client", "hits", "seconds", "bytes"), rows)
    show("pages with the most visits", ("page", "visits"), pages)


def save_sessions(
    folder: Path, title: str, sessions: Iterable[access_log.Session], pages: Sequence[tuple[str, int]]
) -> None:
    """Store the results for the plot."""
    found = {"title": title, "sessions": sorted(sessions), "pages": list(pages)}
    (folder / "sessions.json").write_text(json.dumps(found))
