"""The command of `make oracle`: start both systems, run the scenarios, compare, write the page."""

import argparse
import fnmatch
import importlib
import json
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from headrace.benchmarks.servers import kafka_io

from . import scenarios
from .comparing import Known, read_known, shown, unexplained
from .java_io import JavaTools
from .page import Api, outdated, page
from .playing_io import Outcome, Player
from .scene import ALL, Scenario
from .secured_io import Files
from .systems_io import Headrace, Kafka, System, running
from .wire import KEYS, Wire

Seen = dict[tuple[int, int], set[str]]
ROOT = Path(__file__).parents[3]
KNOWN = ROOT / "tests" / "oracle" / "differences.toml"
PAGE = ROOT / "docs" / "COMPATIBILITY.md"
# not in a short run: slow scenarios with little coverage of their own
SLOW = (
    "kafka streams/*",
    "*/continues after a restart",
    "*/a leader is killed *",
    "logs/each continues from the other's compacted *",
    "java tools/console *",
    "java tools/replicas move *",
    "raw/leaders *",
    "raw/an unclean leader",
    "raw/ISR below min.insync.replicas",
    "raw/a node is unregistered",
    "raw/three nodes described*",
    "security*/[!r]*",
)
# the configuration of a second Kafka, with which the harness must find differences
PLANTED = {"auto.create.topics.enable": "false", "message.max.bytes": "100000"}


def main() -> int:
    """The exit code: 0 if all scenarios work on Kafka, all differences are listed, and all entries match."""
    options = _options()
    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    chosen = [each for each in ALL if _is_one_of(each.name, options.only)]
    if options.quick:
        chosen = [each for each in chosen if not _is_one_of(each.name, SLOW)]
    if options.list:
        print(*(each.name for each in chosen), sep="\n")
        return 0
    reason = kafka_io.absent()
    if reason is not None or not chosen:
        print(f"oracle: nothing compared: {reason or 'no scenario matches'}")
        return 2
    known = [] if options.against != "headrace" else read_known(KNOWN.read_text())
    with tempfile.TemporaryDirectory(prefix="headrace-oracle-") as folder:
        outcomes, apis, seen = _run_all(Path(folder), options, chosen, known)
    result, status = _verdict(outcomes, known, is_whole=len(chosen) == len(ALL))
    if options.quick and options.against == "headrace":
        wrong = outdated(PAGE.read_text(), apis, outcomes, known, [each.name for each in ALL])
        print(*(f"{PAGE.name} is out of date: {each}" for each in wrong), sep="\n")
        if wrong:
            result, status = f"{result}; {PAGE.name} is out of date, run `make oracle`", 1
    if not shutil.which("kcat"):
        result += "; kcat is not installed: its scenarios did not run"
    if options.write and options.against == "headrace":
        PAGE.write_text(page(kafka_io.VERSION, result, apis, seen, outcomes, known))
    print(result)
    return status


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", action="append", help="scenarios whose names match, with * and ?")
    parser.add_argument("--quick", action="store_true", help=f"a part, compared with {PAGE.name}: for CI")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    parser.add_argument("--show", action="store_true", help="print Kafka's notes")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, with --against headrace")
    against = ("headrace", "kafka", "planted")
    parser.add_argument("--against", choices=against, default="headrace", help="the second system")
    options = parser.parse_args()
    options.only = options.only or ["*"]
    return options


def _run_all(
    scratch: Path, options: argparse.Namespace, chosen: list[Scenario], known: list[Known]
) -> tuple[list[Outcome], list[Api], Seen]:
    """The scenarios of one node, then those of a secured node, then those of three nodes."""
    outcomes: list[Outcome] = []
    apis: list[Api] = []
    seen: Seen = {}
    for rig in sorted({each.rig for each in chosen}):
        files = Files.made(scratch / "files") if rig.is_secured else None
        kafka = Kafka(scratch, {}, nodes=rig.nodes, files=files)
        other = _other(options.against, scratch, rig.nodes, files)
        with running(kafka, other):
            of_these = [each for each in chosen if each.rig == rig]
            outcomes += _play(kafka, other, of_these, known, is_shown=options.show)
            apis = apis or _apis(kafka, other)
            for head, clients in other.seen.items():
                seen[head] = seen.get(head, set()) | clients
    return outcomes, apis, seen


def _other(kind: str, scratch: Path, nodes: int, files: Files | None) -> System:
    if kind == "headrace":
        return Headrace(scratch, {}, nodes=nodes, files=files)
    return Kafka(scratch, PLANTED if kind == "planted" else {}, "other", nodes=nodes, files=files)


def _play(
    kafka: System, other: System, chosen: list[Scenario], known: list[Known], *, is_shown: bool
) -> list[Outcome]:
    outcomes = []
    with closing(JavaTools()) as one, closing(JavaTools()) as two:
        player = Player(kafka, other, (one, two))
        for scenario in chosen:
            outcome = player.play(scenario)
            outcomes.append(outcome)
            _print_outcome(outcome, known)
            if is_shown:
                print(json.dumps(outcome.noted, indent=1))
    return outcomes


def _print_outcome(outcome: Outcome, known: list[Known]) -> None:
    left = unexplained(list(outcome.differences), known)
    word = "BROKEN" if outcome.broken else "DIFFERS" if left else "listed" if outcome.differences else "same"
    print(f"{word:8} {outcome.scenario.name} ({outcome.values} values, {outcome.seconds:.1f} s)", flush=True)
    if outcome.broken:
        print(f"    on Kafka itself: {outcome.broken}")
    outcome.unexplained = tuple(left)
    for each in left:
        print(f"    {each.place}\n        kafka:    {shown(each.kafka)}")
        print(f"        headrace: {shown(each.headrace)}")


def _verdict(outcomes: list[Outcome], known: list[Known], *, is_whole: bool) -> tuple[str, int]:
    broken = sum(bool(outcome.broken) for outcome in outcomes)
    found = sum(len(outcome.differences) for outcome in outcomes)
    left = sum(len(outcome.unexplained) for outcome in outcomes)
    unused = [each.place for each in known if not each.matched] if is_whole else []
    for place in unused:
        print(f"listed without a match: {place}")
    is_good = not (broken or left or unused)
    values = sum(outcome.values for outcome in outcomes)
    return (
        f"oracle: {'ok' if is_good else 'FAILED'}: {len(outcomes)} scenarios, {values:,} values compared, "
        f"{found} differ, {left} of them not listed, {len(unused)} entries unused, {broken} scenarios broken",
        0 if is_good else 1,
    )


def _apis(kafka: System, other: System) -> list[Api]:
    ranges = []
    for system in (kafka, other):
        with Wire(system.address(1)) as wire:
            response = wire.ask("api_versions", 0)
        ranges.append(
            {each["api_key"]: (each["min_version"], each["max_version"]) for each in response["api_keys"]}
        )
    names = {key: name for name, key in KEYS.items()}
    keys = sorted({*ranges[0], *ranges[1]})
    return [Api(key, names.get(key, "?"), ranges[0].get(key), ranges[1].get(key)) for key in keys]


if __name__ == "__main__":
    sys.exit(main())
