"""The command of a benchmark with a page and results of its own, whose groups can be measured again one by
one: `python -m headrace.benchmarks.spark`, `python -m headrace.benchmarks.streams`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import machine_io
from .harness import ChildError, LostDataError
from .report import results
from .servers import kafka_io

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[1]
STARTED = time.monotonic()


class Benchmark(NamedTuple):
    """`measure` takes the options, the chosen groups and what `kept_of` gives, to which it adds its runs."""

    name: str
    page_name: str
    example: str
    chosen: Callable[[str], Sequence[Any]]
    measure: Callable[[argparse.Namespace, Sequence[Any], dict[str, Any]], None]
    table: Callable[[dict[str, Any]], list[str]]
    page: Callable[[dict[str, Any]], str]
    lists: tuple[str, ...] = ("runs",)
    """What the results have for each group, but for the facts about it."""
    has_pairs: bool = False

    @property
    def results_path(self) -> Path:
        """Where the results are stored."""
        return ROOT / "docs" / "benchmarks" / f"{self.name}.json"

    @property
    def page_path(self) -> Path:
        """The page that is made of them."""
        return ROOT / "docs" / self.page_name


def say(text: str) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


def run(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if nothing failed. `arguments` None: those of the process."""
    options = _options(benchmark, arguments)
    try:
        groups = benchmark.chosen(options.only)
        reason = kafka_io.absent()
        if reason and not options.page:
            print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
            return 1
        found = _found(benchmark, options, groups)
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    except (LostDataError, ChildError, ValueError, kafka_io.KafkaError) as error:
        print(f"failed, no page is written: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted, no page is written", file=sys.stderr)
        return 1
    print("\n".join(benchmark.table(found)))
    if not options.quick:
        benchmark.results_path.write_text(results.dump(found))
        benchmark.page_path.write_text(benchmark.page(json.loads(benchmark.results_path.read_text())))
        say(f"wrote {benchmark.page_path.relative_to(ROOT)}")
    return 0


def _options(benchmark: Benchmark, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"headrace.benchmarks.{benchmark.name}",
        description=f"All groups, or some (`--only {benchmark.example}`).",
    )
    parser.add_argument("--quick", action="store_true", help="fewer, shorter runs; prints, writes no page")
    parser.add_argument("--only", default="", metavar=benchmark.example, help="these; others stay as stored")
    if benchmark.has_pairs:
        parser.add_argument("--pairs", type=int, default=0, help="how many pairs, instead of the mode's")
    parser.add_argument("--page", action="store_true", help="write the page again from the results")
    return parser.parse_args(arguments)


def _found(benchmark: Benchmark, options: argparse.Namespace, groups: Sequence[Any]) -> dict[str, Any]:
    path = benchmark.results_path
    before: dict[str, Any] | None = None
    if path.exists() and not options.quick:
        before = json.loads(path.read_text())
    if options.page and before:
        return before
    found = kept_of(before, {group.id for group in groups}, benchmark.lists, machine_io.facts())
    benchmark.measure(options, groups, found)
    return found


def kept_of(
    before: dict[str, Any] | None, names: set[str], lists: Sequence[str], machine: dict[str, Any]
) -> dict[str, Any]:
    """The results of groups that are not measured again, which are those with other names."""
    kept = before or {}
    groups = kept.get("groups", {})
    found: dict[str, Any] = {
        "machine": machine,
        "groups": {name: about for name, about in groups.items() if name not in names},
    }
    for each in lists:
        found[each] = [row for row in kept.get(each, []) if row["group"] not in names]
    return found


def about_group(found: dict[str, Any], load_before: float) -> dict[str, Any]:
    """When and of which commit a group is measured, and the load average before it."""
    return {**{name: found["machine"][name] for name in ("time", "commit")}, "load_before": load_before}
