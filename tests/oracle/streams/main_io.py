"""The command of `make oracle-streams`: cases by seed, both programs, differences reduced to small cases."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from beside.comparing import Difference, Known, read_known, shown

from . import ours
from .cases import Case, Result, printed
from .comparing import compare, has_output
from .generating import generate
from .java_io import JavaStreams
from .operators import OPERATORS, PAIRS
from .shrinking import shrink

KNOWN = Path(__file__).with_name("differences.toml")
# of each differing case
MOST_SHOWN = 8
# of kinds of differences that are shown in one run
MOST_REDUCED = 8


class Statistics:
    """What the cases of a run covered."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.valid: Counter[str] = Counter()
        self.gave_output: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def add(self, case: Case, java: Result) -> None:
        """Count a case by what Kafka Streams gave."""
        first, second = case["pair"]
        self.pairs[first, second] += 1
        if "error" in java:
            self.failed[java["error"]["place"].split()[0]] += 1
            return
        for name in {first, second}:
            self.valid[name] += 1
            self.gave_output[name] += has_output(java)

    def text(self) -> str:
        """Lines for people."""
        total = self.pairs.total()
        lines = [
            f"{len(self.pairs)} of {len(PAIRS)} pairs of operators; in Kafka Streams "
            f"{total - self.failed.total()} of {total} cases without error"
            + "".join(f", {number} failed at {place}" for place, number in sorted(self.failed.items()))
        ]
        silent = [name for name in OPERATORS if self.valid[name] and not self.gave_output[name]]
        if silent:
            lines.append("no output: " + ", ".join(silent))
        return "\n".join(lines)


class Run:
    """Some seeds, one after the other."""

    def __init__(self, java: JavaStreams, known: list[Known]) -> None:
        self._java, self._known = java, known
        self.statistics = Statistics()
        self.differing: list[int] = []

    def differences(self, case: Case, java: Result | None = None) -> list[Difference]:
        """The unexplained differences of a case."""
        return compare(case, java or self._java.result(case), ours.result(case), self._known)

    def seeds(self, first: int, count: int, *, reduce: bool, java_only: bool) -> None:
        """Run `count` seeds and print what differs."""
        cases = [generate(seed) for seed in range(first, first + count)]
        to_reduce: list[tuple[Case, list[Difference]]] = []
        for case, java in zip(cases, self._java.results(cases), strict=True):
            self.statistics.add(case, java)
            if java_only:
                continue
            if found := self.differences(case, java):
                self.differing.append(case["seed"])
                to_reduce.append((case, found))
        groups: dict[tuple[str, ...], list[tuple[Case, list[Difference]]]] = {}
        for case, found in to_reduce:
            groups.setdefault(_sign(found[0]), []).append((case, found))
        for sign, members in sorted(groups.items(), key=lambda group: -len(group[1]))[:MOST_REDUCED]:
            seeds = [case["seed"] for case, _ in members]
            print(f"\n{len(seeds)} seeds differ in {' '.join(sign)}: {str(seeds)[1:80]}", flush=True)
            case, found = min(members, key=lambda member: len(json.dumps(member[0])))
            if reduce:
                self.show(self.reduced(case, found))
            else:
                self._print(found)

    def reduced(self, case: Case, found: list[Difference]) -> Case:
        """A small case that differs in the same part of the result."""
        sign = _sign(found[0])

        def differs(smaller: Case) -> bool:
            return any(_sign(each) == sign for each in self.differences(smaller))

        return shrink(case, differs)

    def show(self, case: Case) -> None:
        """Print a case and its differences."""
        print(printed(case))
        self._print(self.differences(case))

    @staticmethod
    def _print(found: list[Difference]) -> None:
        for difference in found[:MOST_SHOWN]:
            print(f"  {difference.place}\n    Kafka    {shown(difference.kafka)}")
            print(f"    headrace {shown(difference.headrace)}")
        if len(found) > MOST_SHOWN:
            print(f"  and {len(found) - MOST_SHOWN} more")


def _sign(difference: Difference) -> tuple[str, ...]:
    """The part of the result; of records the kind of topic and the field; of an error both of its classes."""
    if difference.place == "error":
        return tuple(
            " ".join(re.findall(r"^[a-z]+|\w+(?:Error|Exception)", text))
            for text in (difference.kafka, difference.headrace)
        )
    _, part, *rest = difference.place.split("/")
    if part != "records":
        return (part,)
    topic = rest[1].rpartition("-")[2] if len(rest) > 1 else ""
    return part, topic if topic in {"changelog", "repartition", "topic"} else "", "/".join(rest[3:4])


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, count. 1 if a case differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--case", type=Path, help="a case as JSON instead of seeds")
    parser.add_argument("--show", action="store_true", help="print the case of the seed, and both results")
    parser.add_argument("--no-reduce", action="store_true", help="show differences as they are")
    parser.add_argument("--java-only", action="store_true", help="only Kafka Streams, and what was covered")
    asked = parser.parse_args(arguments)
    logging.getLogger("headrace.stream").setLevel(logging.CRITICAL)  # cases fail on purpose
    begin = time.monotonic()
    with closing(JavaStreams()) as java:
        run = Run(java, read_known(KNOWN.read_text()))
        if asked.case or asked.show:
            case = json.loads(asked.case.read_text()) if asked.case else generate(asked.seed)
            if asked.show:
                print("Kafka", json.dumps(java.result(case), indent=1))
                if not asked.java_only:
                    print("headrace", json.dumps(ours.result(case), indent=1))
            if asked.java_only:
                print(printed(case))
            else:
                run.show(case)
            return 0
        run.seeds(asked.seed, asked.count, reduce=not asked.no_reduce, java_only=asked.java_only)
    seconds = time.monotonic() - begin
    print(run.statistics.text())
    last = asked.seed + asked.count - 1
    verdict = "not compared" if asked.java_only else f"{asked.count - len(run.differing)} equal"
    print(f"oracle-streams: seeds {asked.seed}-{last}, {verdict}, {seconds:.0f} s")
    for seed in run.differing[:20]:
        sys.stderr.write(f"again: make oracle-streams SEED={seed}\n")
    return 1 if run.differing else 0
