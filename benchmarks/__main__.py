"""`python -m headrace.benchmarks`: all groups, some (`--only w1,w6`), or single cells, with profiles."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from . import machine_io, partitions_io, plan, startup_io
from .constants import KAFKA
from .group import BUDGET_FULL_S, BUDGET_QUICK_S, GOAL_MORE_S, Group
from .harness import ChildError, LostDataError
from .report import results
from .report.overview import with_table
from .report.page import goal_table, page, partition_lines, ratio_lines
from .servers import kafka_io
from .session_io import Session

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
README = HERE.parent / "README.md"
RESULTS = DOCS / "benchmarks" / "results.json"


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


STARTED = time.monotonic()


def main() -> int:
    """The exit code: 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="headrace.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pairs, shorter cells: under ten minutes")
    parser.add_argument(
        "--only", default="", metavar="w1,w9-100", help="these groups; prints, writes no page"
    )
    parser.add_argument("--cell", default="", metavar="send,produce", help="only these cells")
    parser.add_argument("--pairs", type=int, default=0, help="how many pairs, instead of the mode's")
    parser.add_argument(
        "--profile", default="", metavar="FILE", help="sample node and client: FILE.node, ..."
    )
    parser.add_argument(
        "--no-warm-up", action="store_true", help="skip touching memory and the JVM's warm-up"
    )
    parser.add_argument("--list", action="store_true", help="show groups and cells")
    parser.add_argument(
        "--page", action="store_true", help="write the page again from docs/benchmarks/results.json"
    )
    options = parser.parse_args()
    if options.list:
        return list_groups()
    if options.page:
        if not RESULTS.exists():
            print(f"there is no {RESULTS.relative_to(HERE.parent)}: run `make bench`", file=sys.stderr)
            return 1
        write_pages(json.loads(RESULTS.read_text()))
        return 0
    try:
        return run(options)
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
    except (LostDataError, ChildError, kafka_io.KafkaError) as error:
        print(f"failed, no page is written: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted, no page is written", file=sys.stderr)
    return 1


def list_groups() -> int:
    """Print the values of `--only` and `--cell`."""
    for group in plan.GROUPS:
        quick = "" if group.in_quick else " (full run only)"
        print(f"{group.id:<16} {group.title}{quick}")
        print(" " * 17 + ", ".join(cell.name for cell in group.cells))
    print(f"{'startup':<16} headrace.local(), headrace up on Ray, an idle node")
    print(f"{'partitions':<16} the cost of 1,000 and 5,000 partitions on three nodes (full run only)")
    return 0


def run(options: argparse.Namespace) -> int:
    """Measure, print the goals, and write the page after a complete run."""
    only = {name.strip().lower() for name in options.only.split(",") if name.strip()}
    groups = plan.chosen(only, is_quick=options.quick)
    if options.cell:
        names = options.cell.split(",")
        groups = [group for group in (some_cells(group, names) for group in groups) if group.cells]
        if not groups:
            raise KeyError(f"no cell {options.cell} in {options.only or 'any group'}; see --list")
    reason = kafka_io.absent()
    if reason and any(cell.system == KAFKA for group in groups for cell in group.cells):
        print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
        return 1
    found = measure(options, groups, plan.parts(only, is_quick=options.quick))
    print("\n".join(ratio_lines(found) if only else goal_table(found)))
    if "partitions" in only:
        print("\n".join(partition_lines(found)))
    if only or options.cell or options.pairs or options.no_warm_up or options.profile:
        say("not a complete run: no page is written")
        return 0
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(results.dump(found))
    write_pages(json.loads(RESULTS.read_text()))  # from the file, as --page does
    say(f"wrote {DOCS.name}/BENCHMARKS.md and the table of {README.name}")
    return 0


def measure(options: argparse.Namespace, groups: list[Group], apart: set[str]) -> dict[str, Any]:
    """Run groups and the parts `apart`; the contents of results.json.

    Errors: LostDataError, ChildError, KafkaError.
    """
    is_quick = options.quick
    budget_s = BUDGET_QUICK_S if is_quick else BUDGET_FULL_S
    profile = str(Path(options.profile).absolute()) if options.profile else ""
    machine = {**machine_io.facts(), "load_before": machine_io.load_average()}
    startup: dict[str, Any] = {}
    partitions: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}

    def is_over(group: Group) -> bool:
        more_s = GOAL_MORE_S if group.has_goal else 0.0
        return not options.only and time.monotonic() - STARTED > budget_s + more_s

    with Session(is_quick=options.quick, say=say, profile=profile) as session:
        if "startup" in apart:
            startup = startup_io.measure(session, say, repeats=2 if options.quick else 5)
        if "partitions" in apart:
            partitions = partitions_io.measure(session, say, is_quick=is_quick)
        session.prepare(groups, warm=not options.no_warm_up)
        for group in groups:
            if is_over(group) and not group.has_goal:
                left_out[group.id] = "no time was left for it in this run"
                say(f"{group.id}: skipped, no time left")
                continue
            pairs = options.pairs or group.pair_count(is_quick=is_quick)
            try:
                session.run_group(group, pairs, partial(is_over, group))
            except ChildError as error:
                if group.has_goal:
                    raise
                # a group without a goal must not end a long run; the page names it
                left_out[group.id] = f"it failed in this run: {str(error).splitlines()[-1]}"
                say(f"{group.id}: {error}")
        runs, facts = session.runs, session.facts
    machine["largest_steal"] = max((run["steal"] for run in runs if run["is_used"]), default=0.0)
    mode = {"is_quick": is_quick, "seconds": round(time.monotonic() - STARTED), "left_out": left_out}
    found = results.assemble(runs, startup, {**facts, "machine": machine}, mode)
    return {**found, "partitions": partitions}


def write_pages(found: dict[str, Any]) -> None:
    """Write the page, its pictures, and the README's table."""
    write_page(found, DOCS)
    README.write_text(with_table(README.read_text(), found))


def write_page(found: dict[str, Any], folder: Path) -> None:
    """Write the page and its pictures to `folder`; equal results give equal files."""
    from .report import plots_io

    plots_io.write(found, folder / RESULTS.parent.name)
    method, profiles = ((HERE / name).read_text() for name in ("METHOD.md", "PROFILES.md"))
    (folder / "BENCHMARKS.md").write_text(page(found, method, profiles))


def some_cells(group: Group, names: list[str]) -> Group:
    """The group with only the cells in `names`, perhaps none."""
    found = tuple(cell for cell in group.cells if cell.name in names)
    return dataclasses.replace(group, cells=found)


if __name__ == "__main__":
    sys.exit(main())
