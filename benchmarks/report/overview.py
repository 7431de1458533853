"""The README's table of ratios from results.json, and the rates of its picture. Pure."""

from __future__ import annotations

from typing import Any

BEGIN = "<!-- written by make bench: begin -->"
END = "<!-- written by make bench: end -->"

# (label, [(group, above, below, metric) for 100-byte records, the same for 1-KB records]); None: not measured
ROWS: tuple[tuple[str, tuple[tuple[str, str, str, str] | None, ...]], ...] = (
    (
        "records/s, `send` / `produce` without callbacks",
        (("w1", "send", "produce", "records_per_s"), ("w2", "send", "produce", "records_per_s")),
    ),
    (
        "records/s, `send_many` / `produce`",
        (("w1", "send_many", "produce", "records_per_s"), ("w2", "send_many", "produce", "records_per_s")),
    ),
    (
        "records/s, `for record in consumer` / `consume`",
        (("w9-100", "iterate", "consume", "records_per_s"), ("w9-1k", "iterate", "consume", "records_per_s")),
    ),
    (
        "records/s, `arrow_batches` / `consume`",
        (
            ("w9-100", "arrow_batches", "consume", "records_per_s"),
            ("w9-1k", "arrow_batches", "consume", "records_per_s"),
        ),
    ),
    (
        "records/s, three replicas, acks=all, `send` / `produce`",
        (("r3-100", "send", "produce", "records_per_s"), ("r3-1k", "send", "produce", "records_per_s")),
    ),
    (
        "CPU seconds of the server per GB produced, `send` (less is better)",
        (("w1", "send", "produce", "server_cpu_s_per_gb"), ("w2", "send", "produce", "server_cpu_s_per_gb")),
    ),
    (
        "CPU seconds of the server per GB consumed (less is better)",
        (
            ("w9-100", "iterate", "consume", "server_cpu_s_per_gb"),
            ("w9-1k", "iterate", "consume", "server_cpu_s_per_gb"),
        ),
    ),
    (
        "latency p99 at 10,000 records/s, linger 5 ms (less is better)",
        (None, ("w6-10k", "headrace", "kafka", "e2e_p99_ms")),
    ),
    (
        "latency p50 at 10,000 records/s, linger 0 (less is better)",
        (None, ("w6-10k-linger0", "headrace", "kafka", "e2e_p50_ms")),
    ),
    (
        "longest time without acknowledgements after SIGKILL of a leader's node (less is better)",
        (None, ("failover", "headrace", "kafka", "gap_ms")),
    ),
)
# (title of the panel, [(label, system, group, cell)]): records/s of one node
PANELS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = tuple(
    (
        title,
        (
            ("Kafka: produce", "kafka", writing, "produce"),
            ("send", "headrace", writing, "send"),
            ("send_many", "headrace", writing, "send_many"),
            ("send_arrow", "headrace", writing, "send_arrow"),
            ("Kafka: consume", "kafka", reading, "consume"),
            ("for record in consumer", "headrace", reading, "iterate"),
            ("arrow_batches", "headrace", reading, "arrow_batches"),
        ),
    )
    for title, writing, reading in (("100-byte records", "w1", "w9-100"), ("1-KB records", "w2", "w9-1k"))
)


def table(results: dict[str, Any]) -> list[str]:
    """Markdown lines: ratios headrace / Kafka with their 95 % intervals; "-" for a missing one."""
    found = {(row["group"], row["above"], row["below"], row["metric"]): row for row in results["comparisons"]}
    lines = ["| headrace / Apache Kafka | 100-byte records | 1-KB records |", "| --- | ---: | ---: |"]
    for label, places in ROWS:
        cells = ["" if place is None else _ratio(found.get(place, {})) for place in places]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def with_table(readme: str, results: dict[str, Any]) -> str:
    """The README's text with the table of `results` between its two marks.

    Errors: ValueError when a mark is missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the README has no {BEGIN} ... {END}")
    return "\n".join([before + BEGIN, *table(results), END + after])


def _ratio(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return "-"
    return f"{row['ratio']:.2f} ({row['low']:.2f} .. {row['high']:.2f})"
