"""mypy knows the types of keys and values through a chain of operators."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAD = """
from headrace import stream
from headrace.clients.serdes import int64, json, utf8

app = stream.Builder()
orders = app.stream("orders", key=utf8, value=int64)
counts = orders.group_by_key().count()
users = app.table("users", key=int64, value=utf8)
rates = app.global_table("rates", key=int64, value=utf8)
pairs = stream.join_window(5)

async def fetched(value: int) -> list[bytes]:
    return []

async def of_key(key: str, value: int) -> float:
    return 0.0

async def of_record(record: stream.Record[str, int]) -> bool:
    return True

def too_late(record: stream.LateRecord[str, int]) -> None: ...

def added(key: str, value: int, total: float) -> float:
    return total + value

"""
TYPES = {
    'app.stream("any")': "KStream[Any, Any]",
    'app.table("any", key=utf8, value=json)': "KTable[str, Any]",
    "orders": "KStream[str, int]",
    "orders.filter(lambda key, value: value > 3)": "KStream[str, int]",
    "orders.peek(lambda key, value: None) + orders": "KStream[str, int]",
    "orders.map_values(lambda value: [value])": "KStream[str, list[int]]",
    "orders.map_values(lambda key, value: key * value, with_key=True)": "KStream[str, str]",
    "orders.map_values(lambda record: record.timestamp, with_record=True)": "KStream[str, int]",
    "orders.map_values_async(fetched)": "KStream[str, list[bytes]]",
    "orders.map_values_async(of_key, with_key=True, concurrency=2, timeout=5)": "KStream[str, float]",
    "orders.map_values_async(of_record, with_record=True, retry=stream.Retry(5))": "KStream[str, bool]",
    "orders.arrow(lambda batch: batch.slice(1))": "KStream[Any, Any]",
    "orders.flat_map_values(lambda value: str(value))": "KStream[str, str]",
    "orders.map(lambda key, value: (value, key))": "KStream[int, str]",
    "orders.select_key(lambda key, value: value > 3)": "KStream[bool, int]",
    "orders.split().branch(lambda key, value: value > 3).no_default_branch()": "dict[str, KStream[str, int]]",
    "orders.to_table()": "KTable[str, int]",
    "orders.group_by(lambda key, value: value).count()": "KTable[int, int]",
    "orders.group_by_key().reduce(max)": "KTable[str, int]",
    "orders.group_by_key().aggregate(float, lambda key, value, total: total + value)": "KTable[str, float]",
    "orders.group_by_key().windowed_by(stream.tumbling(5)).count()": "KTable[Windowed[str], int]",
    "orders.group_by_key().windowed_by(stream.session(5)).reduce(max)": "KTable[Windowed[str], int]",
    "orders.group_by_key().cogroup(added).aggregate(float)": "KTable[str, float]",
    "orders.group_by_key().cogroup(n=stream.Count()).aggregate(low=stream.Min())": "KTable[str, Row]",
    "orders.group_by_key().cogroup(n=stream.Count()).windowed_by(stream.session(5)).aggregate()": (
        "KTable[Windowed[str], Row]"
    ),
    "orders.group_by_key().aggregate(n=stream.Count(), total=stream.Sum())": "KTable[str, Row]",
    "orders.group_by_key().aggregate(hex=stream.Last(lambda n: n.to_bytes()))": "KTable[str, Row]",
    "orders.group_by_key().windowed_by(stream.session(5)).aggregate(n=stream.Count())": (
        "KTable[Windowed[str], Row]"
    ),
    "orders.group_by_key().windowed_by(stream.count_windows(5)).aggregate(float, added)": (
        "KTable[Windowed[str], float]"
    ),
    "orders.group_by_key().windowed_by(stream.tumbling(5), late=too_late).count()": (
        "KTable[Windowed[str], int]"
    ),
    "counts.group_by(lambda key, n: (n, key)).aggregate(n=stream.Count())": "KTable[int, Row]",
    "orders.join_asof(orders, lambda one, other: str(one + other), tolerance=5)": "KStream[str, str]",
    'orders.join_asof(counts, lambda order, n: (order, n), how="left")': (
        "KStream[str, tuple[int, int | None]]"
    ),
    "orders.join(counts, lambda order, n: (order, n))": "KStream[str, tuple[int, int]]",
    "orders.left_join(counts, lambda order, n: (order, n))": "KStream[str, tuple[int, int | None]]",
    "orders.join(orders, lambda left, right: str(left + right), window=pairs)": "KStream[str, str]",
    "orders.outer_join(orders, lambda left, right: (left, right), window=pairs)": (
        "KStream[str, tuple[int | None, int | None]]"
    ),
    "orders.join(rates, lambda order, rate: rate, key=lambda key, value: value)": "KStream[str, str]",
    "counts.map_values(str)": "KTable[str, str]",
    "counts.to_stream()": "KStream[str, int]",
    "counts.to_stream(lambda key, value: value)": "KStream[int, int]",
    "counts.group_by(lambda key, n: (n, key)).count()": "KTable[int, int]",
    "counts.suppress(stream.until_time_limit(5)).filter(lambda key, n: n > 3)": "KTable[str, int]",
    "counts.join(users, lambda n, user: user, foreign_key=lambda n: n)": "KTable[str, str]",
    "counts.left_join(counts, lambda n, other: other)": "KTable[str, int | None]",
}
MISTAKES = {
    "orders.filter(lambda key, value: value.nothing)": '"int" has no attribute "nothing"',
    "orders.map(lambda key, value: key)": 'got "str", expected "tuple[Never, Never]"',
    "orders.group_by_key().aggregate(n=stream.Sum(lambda value: value.nothing))": (
        '"int" has no attribute "nothing"'
    ),
    "orders.group_by_key().windowed_by(stream.tumbling(5), late=5)": (
        "late: str | Callable[[LateRecord[Any, Any]], object] | None"
    ),
    "orders.merge(counts)": 'incompatible type "KTable[str, int]"; expected "KStream[str, int]"',
}


def test_types_through_a_chain(tmp_path: Path) -> None:
    """filter keeps the types, map_values changes that of values, group_by that of keys."""
    lines = [*HEAD.splitlines(), *(f"reveal_type({each})" for each in TYPES), *MISTAKES]
    program = tmp_path / "chains.py"
    program.write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400).stdout
    by_line = dict(re.findall(r"chains\.py:(\d+): (.*)", said))
    first = len(HEAD.splitlines()) + 1
    revealed = [
        re.sub(r"headrace[\w.]*\.", "", by_line.get(str(first + place), "nothing")).removeprefix(
            'note: Revealed type is "'
        )[:-1]
        for place in range(len(TYPES))
    ]
    assert dict(zip(TYPES, revealed, strict=True)) == TYPES, said
    for place, (mistake, expected) in enumerate(MISTAKES.items(), first + len(TYPES)):
        assert expected in re.sub(r"headrace[\w.]*\.", "", by_line.get(str(place), "")), (mistake, said)
