"""`headrace bench …`: load tests of a cluster, with the option names of Kafka's perf tools where they
exist."""

from __future__ import annotations

import contextlib
import functools
import sys
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..bench.pacing import MOST_PER_S
from ..bench.pacing_io import now_ns
from ..bench.payloads import LARGEST_VALUE, PAYLOAD_KINDS, Payload
from ..bench.plan import DEFAULT_RECORDS, READ_APIS, SEND_APIS, ReadPlan, SendPlan, Target
from ..bench.topics import DEFAULT_PARTITIONS, TopicPlan
from .common import Settings, bootstrap_option, changing_command, cluster_option, config_option, form_option
from .completion import topic_names
from .interrupts import interrupts
from .output import note, print_object, write_line
from .produce import CODECS
from .progress import progress_bar, quiet_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..bench.runs import Outcome, Watch
    from ..bench.worker_pool import Totals

F = TypeVar("F", bound="Callable[..., Any]")

MOST_WORKERS = 64
SMALLEST_STAMPED = 16
MOST_STAMPED = 100_000_000  # Bound: the reader keeps one byte per record to find lost and duplicate records
_ALL = (bootstrap_option, cluster_option, config_option, form_option, quiet_option)
_GLOBAL = changing_command(*_ALL)  # it creates and fills temporary topics


@click.group()
def bench() -> None:
    """Measure the throughput and the latency of a cluster."""


def _options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def add(command: F) -> F:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return add


_positive = click.IntRange(min=1)
_topic_options = _options(
    click.option(
        "--topic",
        metavar="NAME",
        shell_complete=topic_names,
        help="Existing topic [default: a temporary topic, deleted at the end].",
    ),
    click.option(
        "--create", is_flag=True, help="Create --topic if it does not exist; it is not deleted at the end."
    ),
    click.option(
        "--partitions",
        type=_positive,
        help=f"Number of partitions of a new topic [default: {DEFAULT_PARTITIONS}].",
    ),
    click.option(
        "--replication-factor",
        type=_positive,
        help="Replication factor of a new topic [default: the cluster's].",
    ),
)
_payload_options = _options(
    click.option(
        "--record-size",
        type=click.IntRange(0, LARGEST_VALUE),
        default=100,
        show_default=True,
        help="Size of a value in bytes.",
    ),
    click.option(
        "--payload",
        type=click.Choice(PAYLOAD_KINDS),
        default="random",
        show_default=True,
        help="Content of the values.",
    ),
    click.option(
        "--payload-file",
        type=click.Path(exists=True, dir_okay=False),
        help="Use the lines of this file as values.",
    ),
    click.option("--seed", type=int, default=1, show_default=True, help="Seed of the generated values."),
    click.option(
        "--keys", type=click.IntRange(min=0), default=0, help="Number of distinct keys [default: no keys]."
    ),
    click.option("--key-size", type=click.IntRange(1, 65_536), help="Size of a key in bytes [default: 8]."),
)
_producer_options = _options(
    click.option(
        "--producers",
        type=click.IntRange(1, MOST_WORKERS),
        default=1,
        help="Number of producer processes [default: 1].",
    ),
    click.option("--acks", type=click.Choice(("all", "-1", "0", "1")), help="Config key acks."),
    click.option("--linger-ms", type=click.IntRange(min=0), help="Config key linger.ms."),
    click.option("--batch-size", type=_positive, help="Config key batch.size, in bytes."),
    click.option("--compression", type=click.Choice(CODECS), help="Config key compression.type."),
)
_send_api_options = _options(
    click.option(
        "--api",
        type=click.Choice(SEND_APIS),
        default="send",
        show_default=True,
        help="Producer method to measure; arrow needs pyarrow.",
    ),
    click.option(
        "--chunk", type=click.IntRange(1, 1_000_000), help="Records per call, for send-many and arrow."
    ),
)
_read_timeout = click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="End after this many seconds without a new record.",
)
_consumer_options = _options(
    click.option(
        "--consumers",
        type=click.IntRange(1, MOST_WORKERS),
        default=1,
        help="Number of consumer processes [default: 1].",
    ),
    click.option("--max-records", type=_positive, help="Records per poll or batch, or rows per Arrow batch."),
    _read_timeout,
)
_records = click.option("--records", type=_positive, help="Total number of records to send.")
_duration = click.option("--duration", type=click.FloatRange(0.001), help="Duration of the sends in seconds.")


def _throughput(default: float | None) -> Callable[[F], F]:
    shown_default = " [default: unlimited]." if default is None else "."
    return click.option(
        "--throughput",
        type=click.FloatRange(0, MOST_PER_S, min_open=True),
        default=default,
        show_default=default is not None,
        help=f"Records per second of all processes together, at a constant rate{shown_default}",
    )


def _read_api(flag: str) -> Callable[[F], F]:
    return click.option(
        flag,
        type=click.Choice(READ_APIS),
        default="poll",
        show_default=True,
        help="Consumer method to measure; arrow needs pyarrow.",
    )


def _read_from(flag: str, default: str) -> Callable[[F], F]:
    return click.option(
        flag,
        "start",
        type=click.Choice(("beginning", "end")),
        default=default,
        show_default=True,
        help="Start offset of the consumers.",
    )


_warmup = click.option(
    "--warmup-records", type=click.IntRange(min=0), default=0, help="Records to send before the measurement."
)
_sending = _options(
    _records,
    _duration,
    _throughput(None),
    _warmup,
    _payload_options,
    _send_api_options,
    _producer_options,
)


@bench.command(short_help="Measure producers: throughput, time to acknowledgement.")
@_sending
@_topic_options
@_GLOBAL
def produce(settings: Settings, **options: Any) -> None:
    """Send records, and measure the acknowledged records per second and the time to acknowledgement."""
    from ..bench import runs

    target = _target(settings, options)
    plan = _send_plan(target, options)
    with _progress(settings, _planned(plan)) as watch:
        outcome = runs.run_produce(plan, _topic_plan(options), watch, note)
    _finish(outcome, settings)


@bench.command(short_help="Measure consumers: throughput.")
@click.option(
    "--records", type=_positive, help="Total number of records to read [default: all of the topic]."
)
@_read_api("--api")
@_read_from("--from", "beginning")
@_consumer_options
@_payload_options
@_topic_options
@_GLOBAL
def consume(settings: Settings, **options: Any) -> None:
    """Read records, and measure the records per second.

    Without --topic, first creates a temporary topic with --records records.
    """
    from ..bench import runs

    target = _target(settings, options)
    if options["topic"] is None and options["start"] == "end":
        raise click.UsageError("--from end reads no records of a temporary topic: give --topic")
    if options["start"] == "end" and options["records"] is None:
        raise click.UsageError("--from end needs --records")
    plan = _read_plan(target, options, from_end=options["start"] == "end")
    fill = _fill_plan(target, options, options["records"] or DEFAULT_RECORDS)
    with _progress(settings, options["records"]) as watch:
        outcome = runs.run_consume(plan, options["records"], fill, _topic_plan(options), watch, note)
    _finish(outcome, settings)


@bench.command(short_help="Measure end-to-end latency at a fixed rate.")
@_records
@_duration
@_throughput(10_000.0)
@click.option(
    "--warmup-records",
    type=click.IntRange(min=0),
    help="Records to send before the measurement [default: those of 1 s].",
)
@_payload_options
@_producer_options
@_read_timeout
@_topic_options
@_GLOBAL
def latency(settings: Settings, **options: Any) -> None:
    """Measure end-to-end latency: from the scheduled time of the send to the arrival at a consumer.

    Producers send at a fixed rate while another process reads.

    Runs for --duration (default: 10 s) or --records.
    """
    from ..bench import runs

    if options["payload_file"] is None and options["record_size"] < SMALLEST_STAMPED:
        raise click.UsageError(
            f"--record-size must be at least {SMALLEST_STAMPED}: a value contains its send time"
        )
    if options["records"] is None and options["duration"] is None:
        options["duration"] = 10.0
    if options["warmup_records"] is None:
        options["warmup_records"] = max(int(options["throughput"]), 1)
    target = _target(settings, options)
    plan = _send_plan(target, {**options, "api": "send", "chunk": None})
    if plan.warmup + sum(plan.count(index) or 0 for index in range(plan.workers)) > MOST_STAMPED:
        raise click.UsageError(f"at most {MOST_STAMPED} records can be tracked")
    tail = ReadPlan(target=target, partitions=1, timeout_s=options["timeout"])
    with _progress(settings, _planned(plan)) as watch:
        outcome = runs.run_latency(plan, tail, _topic_plan(options), watch, note)
    _finish(outcome, settings)


@bench.command(short_help="Measure producers and consumers of one topic together.")
@_sending
@click.option(
    "--preload-records",
    type=click.IntRange(min=0),
    default=0,
    help="Records to send before the start, so that the consumers read from disk.",
)
@_read_from("--read-from", "end")
@_read_api("--read-api")
@_consumer_options
@_topic_options
@_GLOBAL
def mixed(settings: Settings, **options: Any) -> None:
    """Send to and read from one topic at the same time; the consumers read all its records."""
    from ..bench import runs

    target = _target(settings, options)
    plan = _send_plan(target, options)
    reader = _read_plan(target, {**options, "api": options["read_api"]}, from_end=options["start"] == "end")
    fill = _fill_plan(target, options, options["preload_records"]) if options["preload_records"] else None
    with _progress(settings, _planned(plan)) as watch:
        outcome = runs.run_mixed(plan, reader, fill, _topic_plan(options), watch, note)
    _finish(outcome, settings)


# --- options to plans ---------------------------------------------------------------------------------------

_KEYS = {
    "acks": "acks",
    "linger_ms": "linger.ms",
    "batch_size": "batch.size",
    "compression": "compression.type",
}


def _target(settings: Settings, options: dict[str, Any]) -> Target:
    """Connection settings with a validated config. Errors: ConfigError."""
    from ...clients.cluster.environment_io import environment
    from ...clients.config import ClientConfigs, ConsumerConfig, ProducerConfig, given, resolve

    config = settings.client_config()
    config.update({key: str(options[name]) for name, key in _KEYS.items() if options.get(name) is not None})
    sends, reads = "producers" in options, "consumers" in options or "timeout" in options
    schemas = tuple(
        schema
        for schema in ClientConfigs
        if (schema is not ProducerConfig or sends) and (schema is not ConsumerConfig or reads)
    )
    values = given(config, {}, schemas)  # rejects keys without effect
    for schema in schemas:
        resolve(schema, values, environment())
    return Target(bootstrap=settings.addresses(), config=config)


def _topic_plan(options: dict[str, Any]) -> TopicPlan:
    if options["create"] and options["topic"] is None:
        raise click.UsageError("--create needs --topic: without it the topic is a temporary one")
    if options["topic"] is not None and not options["create"]:
        for name in ("partitions", "replication_factor"):
            if options[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise click.UsageError(f"{flag} has no effect on an existing topic: add --create")
    return TopicPlan(
        name=options["topic"],
        create=options["create"],
        partitions=options["partitions"] or DEFAULT_PARTITIONS,
        replication_factor=options["replication_factor"],
    )


def _payload(options: dict[str, Any]) -> Payload:
    if options["key_size"] is not None and not options["keys"]:
        raise click.UsageError("--key-size has no effect without --keys")
    payload = Payload(
        kind=options["payload"],
        size=options["record_size"],
        seed=options["seed"],
        file=options["payload_file"],
        keys=options["keys"],
        key_size=options["key_size"] or 8,
    )
    try:
        payload.check()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return payload


def _send_plan(target: Target, options: dict[str, Any]) -> SendPlan:
    _topic_plan(options)  # usage errors come before any action
    if options["api"] == "arrow":
        _check_arrow()
    records, chunk = options["records"], options["chunk"]
    if chunk is not None and options["api"] == "send":
        raise click.UsageError("--chunk has no effect on --api send")
    if records is None and options["duration"] is None:
        records = DEFAULT_RECORDS
    plan = SendPlan(
        target=target,
        payload=_payload(options),
        api=options["api"],
        workers=options["producers"],
        records=records,
        duration_s=options["duration"],
        throughput=options["throughput"],
        warmup=options["warmup_records"],
    )
    default = {"send": plan.chunk, "send-many": 1000, "arrow": 10_000}[plan.api]
    return replace(plan, chunk=chunk or default)


def _fill_plan(target: Target, options: dict[str, Any], records: int) -> SendPlan:
    return SendPlan(target=target, payload=_payload(options), api="send-many", records=records, chunk=1000)


def _read_plan(target: Target, options: dict[str, Any], *, from_end: bool) -> ReadPlan:
    topic = _topic_plan(options)
    if options["api"] == "arrow":
        _check_arrow()
    if (topic.name is None or topic.create) and options["consumers"] > topic.partitions:
        raise click.UsageError(
            f"--consumers {options['consumers']} cannot share {topic.partitions} partitions"
        )
    return ReadPlan(
        target=target,
        partitions=topic.partitions,
        api=options["api"],
        workers=options["consumers"],
        from_end=from_end,
        max_records=options["max_records"] or (65_536 if options["api"] == "arrow" else 5000),
        timeout_s=options["timeout"],
    )


def _check_arrow() -> None:
    try:
        import_module("headrace.clients.arrow.library")
    except ImportError as error:
        raise click.UsageError(f"--api arrow: {error}") from error


# --- progress and report ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _progress(settings: Settings, records: int | None) -> Iterator[Watch]:
    """Handle Ctrl-C, and show the running counts: in a bar, or elsewhere than on a terminal as a line per
    second on standard error. `records`: those that the first group of workers sends or reads, if known."""
    with interrupts(), progress_bar("preparing", records, "records") as bar:
        show = bar.describe if sys.stderr.isatty() or settings.is_quiet else note
        last: dict[str, tuple[int, int]] = {}

        def watch(groups: Sequence[tuple[str, Totals]], start_ns: int) -> None:
            at_ns = now_ns()
            parts = []
            for number, (title, totals) in enumerate(groups):
                count, size_bytes, failed = totals.read()
                if not number and start_ns:
                    bar.reach(count)
                before, before_ns = last.get(title, (0, min(start_ns or at_ns, at_ns)))
                last[title] = count, at_ns
                rate = max(count - before, 0) / max((at_ns - before_ns) / 1e9, 0.001)
                text = f"{title} {count:,} records, {size_bytes / 1e6:,.1f} MB, {rate:,.0f} records/s"
                parts.append(text + (f", {failed:,} failed" if failed else ""))
            show(f"{max(at_ns - start_ns, 0) / 1e9:.0f} s: {'; '.join(parts)}" if start_ns else "preparing")

        yield watch


def _planned(plan: SendPlan) -> int | None:
    """The records that the producers will send; None for a plan with a duration and no rate."""
    counts = [plan.count(index) for index in range(plan.workers)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _finish(outcome: Outcome, settings: Settings) -> None:
    """Print the result, valid or not; an invalid one is an error."""
    if settings.is_text:
        for line in text_report(outcome.report):
            write_line(line)
    else:
        print_object(outcome.report, settings.form)
    outcome.raise_for_problems()


def text_report(report: dict[str, Any]) -> list[str]:
    """The report as lines of text, one per figure; `mixed` has a part for each side."""
    kept = ", temporary" if report["temporary_topic"] else ""
    lines = [f"{report['bench']}: topic {report['topic']}, {report['partitions']} partitions{kept}"]
    if report["bench"] == "mixed":
        for side in ("produce", "consume"):
            lines += [f"{side}:", *("  " + line for line in _figures(report[side]))]
        return lines
    return lines + _figures(report)


def _figures(facts: dict[str, Any]) -> list[str]:
    failed = facts.get("failed", 0) + facts.get("unsent", 0)
    lines = [
        f"records  {facts['records']:,}" + (f", {failed:,} failed or not sent" if failed else ""),
        f"time     {facts['elapsed_s']:.3f} s",
        f"rate     {facts['records_per_s']:,.0f} records/s, {facts['mb_per_s']:,.1f} MB/s",
        f"cpu      {facts['client_cpu_s']:.2f} s of client",
    ]
    for title, name in (("latency", "latency_ms"), ("acks", "ack_latency_ms")):
        found = facts.get(name)
        if found and found["count"]:
            figures = "  ".join(
                f"{key.replace('_', '.')} {found[key]:.3f}"
                for key in ("p50", "p90", "p99", "p99_9", "max", "mean")
            )
            lines.append(f"{title:<8} {figures} ms  ({found['count']:,} measured)")
    return lines
