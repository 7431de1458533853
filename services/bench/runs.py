"""The four benchmarks: their workers, the report, and the checks that make a run invalid."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import HeadraceError
from .histogram import Histogram
from .read_work import ReadTask, TailTask
from .send_work import SendTask
from .topics import bench_topic
from .watchdog import GONE
from .worker_pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plan import ReadPlan, SendPlan
    from .read_work import ReadResult, TailResult
    from .send_work import SendResult
    from .topics import BenchTopic, TopicPlan
    from .worker_pool import Totals

    # once a second: title, running counts, start in ns (0 before)
    Watch = Callable[[Sequence[tuple[str, Totals]], int], None]

R = TypeVar("R", "SendResult", "ReadResult", "TailResult")

MB = 1_000_000

LATENCY_OF_SAMPLES = "acknowledgement, from the send call of one record of each chunk"
LATENCY_OF_SCHEDULE = "acknowledgement, from the intended send time of each record (or every n-th)"


class BenchFailedError(HeadraceError):
    """The result of the benchmark is invalid: records failed, were lost or did not arrive."""


class Outcome:
    """The report as one JSON-able object, and the reasons why it is invalid, if any."""

    def __init__(self, report: dict[str, Any], problems: list[str]) -> None:
        self.report, self.problems = report, problems

    def raise_for_problems(self) -> None:
        if self.problems:
            raise BenchFailedError("; ".join(self.problems))


def run_produce(plan: SendPlan, topic_plan: TopicPlan, watch: Watch, note: Callable[[str], None]) -> Outcome:
    """Producers only."""
    with bench_topic(plan.target.bootstrap, plan.target.config, topic_plan, note) as topic:
        plan = _of_topic(plan, topic)
        before = topic.ends()
        with WorkerPool(_senders(plan)) as pool:
            tick = _ticker(pool, watch, "produce")
            pool.start(tick)
            results = _mark_lost(pool.finish(0, tick), topic)
        sent = _sent_facts(plan, results)
        problems = _send_problems(sent) + _log_problems(topic, before, plan, sent)
        return Outcome({"bench": "produce", **_topic_facts(topic), **sent}, problems)


def run_consume(
    plan: ReadPlan,
    records: int | None,
    fill: SendPlan,
    topic_plan: TopicPlan,
    watch: Watch,
    note: Callable[[str], None],
) -> Outcome:
    """Consumers only; a temporary topic is filled with `fill` first. `records` None: all records of the
    topic, for a plan that starts at the beginning."""
    with bench_topic(plan.target.bootstrap, plan.target.config, topic_plan, note) as topic:
        if topic.is_temporary:
            _fill(fill, topic, watch)
        plan = _reader_of_topic(plan, topic)
        expected = records if records is not None else topic.ends() - topic.beginnings()
        if not expected:
            raise BenchFailedError(f"topic {topic.name!r} is empty: give --records to wait for that many")
        with WorkerPool(_readers(plan)) as pool:
            pool.set_goal(expected)
            tick = _ticker(pool, watch, "consume")
            pool.start(tick)
            read = _read_facts(plan, _mark_lost(pool.finish(0, tick), topic))
        return Outcome(
            {"bench": "consume", **_topic_facts(topic), **read, "expected": expected},
            _read_problems(read, expected, plan, topic),
        )


def run_latency(
    plan: SendPlan, tail: ReadPlan, topic_plan: TopicPlan, watch: Watch, note: Callable[[str], None]
) -> Outcome:
    """End to end: stamped records at a fixed rate, read by a consumer in a process of its own."""
    with bench_topic(plan.target.bootstrap, plan.target.config, topic_plan, note) as topic:
        run_number = secrets.randbits(32)
        measured = sum(plan.count(index) or 0 for index in range(plan.workers))
        expected = measured + plan.warmup
        plan = replace(_of_topic(plan, topic), stamp=run_number, records=expected, duration_s=None)
        task = TailTask(_reader_of_topic(tail, topic), run_number, expected, plan.warmup)
        with WorkerPool(_senders(plan), [task]) as pool:
            tick = _ticker(pool, watch, "sent", "received")
            pool.start(tick)
            sent = _sent_facts(plan, _mark_lost(pool.finish(0, tick), topic))
            # a failed record may be in the log all the same: then more records arrive, never fewer
            pool.set_goal(0 if topic.is_lost else sent["records"])
            received: TailResult = _mark_lost(pool.finish(1, tick), topic)[0]
    facts = {
        "bench": "latency",
        **_topic_facts(topic),
        **sent,
        "received": received.records,
        "repeated": received.repeated,
        "ack_latency_ms": sent["latency_ms"],
        "latency_ms": received.latency.summary_ms(),
        "latency_of": "end to end, from the intended send time of each record to the return of its poll",
        "consumer_cpu_s": round(received.cpu_s, 4),
    }
    facts["records_per_s"] = _per_s(received.records, received.elapsed_s)
    facts["mb_per_s"] = _per_s(received.size_bytes / MB, received.elapsed_s)
    return Outcome(facts, _send_problems(sent) + _tail_problems(sent, received, tail, topic))


def run_mixed(
    plan: SendPlan,
    reader: ReadPlan,
    fill: SendPlan | None,
    topic_plan: TopicPlan,
    watch: Watch,
    note: Callable[[str], None],
) -> Outcome:
    """Producers and consumers on one topic at the same time; `fill` is sent before, for a cold reader."""
    with bench_topic(plan.target.bootstrap, plan.target.config, topic_plan, note) as topic:
        if fill is not None:
            _fill(fill, topic, watch)
        plan, reader = _of_topic(plan, topic), _reader_of_topic(reader, topic)
        before = topic.ends()
        with WorkerPool(_senders(plan), _readers(reader)) as pool:
            tick = _ticker(pool, watch, "produce", "consume")
            pool.start(tick)
            first = sum(pool.prepared[slot] for slot in pool.groups[1])
            sent = _sent_facts(plan, _mark_lost(pool.finish(0, tick), topic))
            end = before + plan.warmup + sent["records"]
            # a node may be down: then the number of acknowledged records is the goal
            with contextlib.suppress(HeadraceError):
                end = max(end, topic.ends())
            expected = end - first
            pool.set_goal(0 if topic.is_lost else expected)
            read = _read_facts(reader, _mark_lost(pool.finish(1, tick), topic))
        problems = _send_problems(sent) + _log_problems(topic, before, plan, sent)
        problems += _read_problems(read, expected, reader, topic)
    top = {name: sent[name] for name in ("records_per_s", "mb_per_s", "latency_ms")}
    read["expected"] = expected
    return Outcome(
        {"bench": "mixed", **_topic_facts(topic), **top, "produce": sent, "consume": read}, problems
    )


# --- shared parts -------------------------------------------------------------------------------------------


def _senders(plan: SendPlan) -> list[SendTask]:
    return [SendTask(plan, index) for index in range(plan.workers)]


def _readers(plan: ReadPlan) -> list[ReadTask]:
    return [ReadTask(plan, index) for index in range(plan.workers)]


def _of_topic(plan: SendPlan, topic: BenchTopic) -> SendPlan:
    return replace(plan, target=replace(plan.target, topic=topic.name))


def _reader_of_topic(plan: ReadPlan, topic: BenchTopic) -> ReadPlan:
    if plan.workers > topic.partitions:
        raise BenchFailedError(
            f"{plan.workers} consumers are more than the partitions of topic {topic.name!r}: it has"
            f" {topic.partitions} {'partition' if topic.partitions == 1 else 'partitions'}"
        )
    return replace(plan, target=replace(plan.target, topic=topic.name), partitions=topic.partitions)


def _fill(plan: SendPlan, topic: BenchTopic, watch: Watch) -> None:
    plan = _of_topic(plan, topic)
    with WorkerPool(_senders(plan)) as pool:
        tick = _ticker(pool, watch, "fill")
        pool.start(tick)
        sent = _sent_facts(plan, _mark_lost(pool.finish(0, tick), topic))
    problems = _send_problems(sent)
    if problems:
        raise BenchFailedError("; ".join(["filling the topic failed", *problems]))


def _mark_lost(results: list[R], topic: BenchTopic) -> list[R]:
    """The results of workers; marks the topic as lost if a worker found that no node answers."""
    topic.is_lost = topic.is_lost or any(result.has_lost_cluster for result in results)
    return results


def _ticker(pool: WorkerPool, watch: Watch, *titles: str) -> Callable[[], None]:
    groups = [(title, pool.totals(number)) for number, title in enumerate(titles)]
    return lambda: watch(groups, pool.start_ns)


def _topic_facts(topic: BenchTopic) -> dict[str, Any]:
    return {"topic": topic.name, "partitions": topic.partitions, "temporary_topic": topic.is_temporary}


def _sent_facts(plan: SendPlan, results: list[SendResult]) -> dict[str, Any]:
    latency = Histogram()
    for result in results:
        latency.merge(result.latency)
    acknowledged = sum(result.acknowledged for result in results)
    size_bytes = sum(result.size_bytes for result in results)
    elapsed_s = max(result.elapsed_s for result in results)
    errors = [result.first_error for result in results if result.first_error]
    return {
        "records": acknowledged,
        "failed": sum(result.failed for result in results),
        "unsent": sum(result.unsent for result in results),
        "first_error": errors[0] if errors else None,
        "bytes": size_bytes,
        "elapsed_s": round(elapsed_s, 6),
        "records_per_s": _per_s(acknowledged, elapsed_s),
        "mb_per_s": _per_s(size_bytes / MB, elapsed_s),
        "latency_ms": latency.summary_ms(),
        "latency_of": LATENCY_OF_SAMPLES if plan.throughput is None else LATENCY_OF_SCHEDULE,
        "client_cpu_s": round(sum(result.cpu_s for result in results), 4),
        "api": plan.api,
        "producers": plan.workers,
        "throughput": plan.throughput,
        "record_size": plan.payload.size if plan.payload.file is None else None,
        "warmup_records": plan.warmup,
    }


def _read_facts(plan: ReadPlan, results: list[ReadResult]) -> dict[str, Any]:
    records = sum(result.records for result in results)
    size_bytes = sum(result.size_bytes for result in results)
    elapsed_s = max(result.elapsed_s for result in results)
    return {
        "records": records,
        "bytes": size_bytes,
        "elapsed_s": round(elapsed_s, 6),
        "records_per_s": _per_s(records, elapsed_s),
        "mb_per_s": _per_s(size_bytes / MB, elapsed_s),
        "latency_ms": None,
        "client_cpu_s": round(sum(result.cpu_s for result in results), 4),
        "api": plan.api,
        "consumers": plan.workers,
    }


def _send_problems(sent: dict[str, Any]) -> list[str]:
    problems = []
    if sent["failed"] or sent["unsent"]:
        total = sent["records"] + sent["failed"] + sent["unsent"]
        unsent = f" and {sent['unsent']} were not sent" if sent["unsent"] else ""
        problems.append(f"{sent['failed']} of {total} records failed{unsent}: {sent['first_error']}")
    return problems


def _log_problems(topic: BenchTopic, before: int, plan: SendPlan, sent: dict[str, Any]) -> list[str]:
    """Whether the log has all acknowledged records; retries and other producers may have added more."""
    grown: int | None = None
    with contextlib.suppress(HeadraceError):  # a node may be down: its records cannot be counted
        grown = topic.ends() - before
    sent["log_growth"] = grown
    acknowledged = sent["records"] + plan.warmup
    has_acks = plan.target.config.get("acks") != "0"
    if grown is not None and has_acks and grown < acknowledged:
        return [f"{acknowledged} records were acknowledged, but the log has only {grown} more"]
    return []


def _read_problems(read: dict[str, Any], expected: int, plan: ReadPlan, topic: BenchTopic) -> list[str]:
    if read["records"] >= expected:
        return []
    return [f"only {read['records']} of {expected} records arrived, {_reason(plan, topic)}"]


def _tail_problems(
    sent: dict[str, Any], received: TailResult, tail: ReadPlan, topic: BenchTopic
) -> list[str]:
    problems = []
    if received.records < sent["records"]:
        problems.append(
            f"only {received.records} of {sent['records']} acknowledged records arrived,"
            f" {_reason(tail, topic)}"
        )
    if received.repeated:
        problems.append(f"{received.repeated} records arrived more than once")
    return problems


def _reason(plan: ReadPlan, topic: BenchTopic) -> str:
    return f"then {GONE}" if topic.is_lost else f"then none for {plan.timeout_s:g} s"


def _per_s(amount: float, elapsed_s: float) -> float:
    return round(amount / elapsed_s, 3) if elapsed_s > 0 else 0.0
