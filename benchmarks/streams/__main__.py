"""`python -m headrace.benchmarks.streams`: all groups, or some (`--only count-few,join`)."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from headrace.benchmarks import machine_io
from headrace.benchmarks.harness import ChildError, LostDataError
from headrace.benchmarks.report import results
from headrace.benchmarks.servers import kafka_io

from . import cells
from .page import page, table
from .session_io import ROOT, Session

RESULTS = ROOT / "docs" / "benchmarks" / "streams.json"
PAGE = ROOT / "docs" / "BENCHMARKS_STREAMS.md"
STARTED = time.monotonic()


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


def main() -> int:
    """The exit code: 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="headrace.benchmarks.streams", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer records and pairs; prints, writes no page"
    )
    parser.add_argument("--only", default="", metavar="count-few,join", help="these; others stay as stored")
    parser.add_argument("--pairs", type=int, default=0, help="how many pairs, instead of the mode's")
    parser.add_argument("--page", action="store_true", help="write the page again from the results")
    options = parser.parse_args()
    try:
        groups = cells.chosen(options.only)
        reason = kafka_io.absent()
        if reason and not options.page:
            print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
            return 1
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() and not options.quick else None
        sizes = cells.QUICK if options.quick else cells.FULL
        sizes = sizes._replace(pairs=options.pairs or sizes.pairs)
        found = before if options.page and before else measure(groups, before, sizes)
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    except (LostDataError, ChildError, ValueError, kafka_io.KafkaError) as error:
        print(f"failed, no page is written: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted, no page is written", file=sys.stderr)
        return 1
    print("\n".join(table(found)))
    if not options.quick:
        RESULTS.write_text(results.dump(found))
        PAGE.write_text(page(json.loads(RESULTS.read_text())))
        say(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


def measure(groups: list[cells.Group], before: dict[str, Any] | None, sizes: cells.Sizes) -> dict[str, Any]:
    """The contents of streams.json; groups that do not run are copied from `before`.

    Errors: ChildError, LostDataError, KafkaError; ValueError for a run that is too short.
    """
    names = {group.id for group in groups}
    kept = before or {"groups": {}, "runs": []}
    found: dict[str, Any] = {
        "machine": machine_io.facts(),
        "groups": {name: about for name, about in kept["groups"].items() if name not in names},
        "runs": [run for run in kept["runs"] if run["group"] not in names],
    }
    with Session(sizes, say) as session:
        for group in groups:
            load = machine_io.load_average()
            found["runs"] += session.run(group)
            about = {name: found["machine"][name] for name in ("time", "commit")}
            found["groups"][group.id] = {**about, "load_before": load, "sizes": sizes._asdict()}
    return found


if __name__ == "__main__":
    sys.exit(main())
