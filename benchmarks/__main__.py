"""`python -m headrace.benchmarks`: run all, some (`--only w1,w6`), or one cell of a group, with profiles."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import cells, kafka_io
from .session_io import Session


def say(text: str) -> None:
    """With the time since the start."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


STARTED = time.monotonic()


def main() -> int:
    """0 when all went well."""
    parser = argparse.ArgumentParser(prog="headrace.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, shorter cells: under ten minutes")
    parser.add_argument("--only", default="", metavar="w1,w9-100", help="these parts; prints, writes no page")
    parser.add_argument("--cell", default="", help="of the group in --only: just this cell")
    parser.add_argument("--pairs", type=int, default=0, help="how many, instead of the mode's")
    parser.add_argument("--profile", default="", metavar="FILE", help="sample node and client: FILE.node, ...")
    parser.add_argument("--no-warm-up", action="store_true", help="skip touching memory and the JVM's warm-up")
    parser.add_argument("--list", action="store_true", help="show groups and cells")
    parser.add_argument("--page", action="store_true", help="write the page anew from docs/benchmarks/results.json")
    options = parser.parse_args()
    if options.list:
        for group in cells.GROUPS:
            quick = "" if group.in_quick else " (full run only)"
            print(f"{group.id:<16} {group.title}{quick}")
            print(" " * 17 + ", ".join(cell.name for cell in group.cells))
        return 0
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Measure."""
    only = {name.strip().lower() for name in options.only.split(",") if name.strip()}
    groups = cells.chosen(only, is_quick=options.quick)
    if options.cell:
        groups = [one_cell(group, options.cell) for group in groups]
    reason = kafka_io.absent()
    if reason and any(cell.system == cells.KAFKA for group in groups for cell in group.cells):
        print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
        return 1
    pairs = options.pairs or (cells.QUICK_PAIRS if options.quick else cells.FULL_PAIRS)
    profile = str(Path(options.profile).absolute()) if options.profile else ""
    with Session(is_quick=options.quick, say=say, profile=profile) as session:
        session.prepare(groups, warm=not options.no_warm_up)
        for group in groups:
            session.run_group(group, options.pairs or min(pairs, group.pairs or pairs))
    return 0


def one_cell(group: cells.Group, name: str) -> cells.Group:
    """A group of one cell."""
    return cells.Group(group.id, group.title, (group.cell(name),), (), group.preload, True, group.is_pinned)


if __name__ == "__main__":
    sys.exit(main())
