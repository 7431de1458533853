"""Plots of the pipelines' results."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

mpl.use("agg")
from matplotlib import dates
from matplotlib import pyplot as plt

BLUE, RED, GREY = "#1565c0", "#c62828", "#607d8b"
HOUR_MS = 3_600_000
LONGEST_NAME = 34
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}


def sessions(folder: Path) -> Path:
    """Plot sessions.json: sessions by start time, and the most visited pages."""
    found = json.loads((folder / "sessions.json").read_text())
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained")
        hours = Counter(start // HOUR_MS for _, start, *_ in found["sessions"])
        shown = range(min(hours, default=0), max(hours, default=0) + 1)
        at = [datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC) for hour in shown]
        left.bar(at, [hours[hour] for hour in shown], width=0.9 / 24, align="edge", color=BLUE)
        left.xaxis.set_major_locator(places := dates.AutoDateLocator(minticks=4, maxticks=9))
        left.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))
        left.set(ylabel="sessions")
        left.set_title(f"Sessions that began, by hour (UTC): {len(found['sessions']):,} in all")
        _pages(right, found["pages"])
        figure.suptitle(found["title"], x=0.01, ha="left", fontweight="bold")
        return _saved(figure, folder / "sessions.png")


def features(folder: Path) -> Path:
    """Plot the Parquet files in features/: features of robots and other clients."""
    rows = pq.read_table(folder / "features").to_pylist()
    kinds = [("others", BLUE, "o", False), ("say they are robots", RED, "^", True)]
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
        for name, color, marker, is_robot in kinds:
            its = [row for row in rows if row["is_robot"] is is_robot]
            marks: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "s": 14,
                "alpha": 0.45,
                "linewidths": 0,
            }
            label = f"{name} ({len(its):,})"
            xs, ys = [row["hits"] for row in its], [row["paths"] for row in its]
            left.scatter(xs, ys, label=label, **marks)
            shares = [row["pages"] / row["hits"] for row in its]
            weights = [1 / max(len(its), 1)] * len(its)
            right.hist(shares, bins=20, range=(0, 1), weights=weights, color=color, alpha=0.55, label=label)
        left.set(xscale="log", yscale="log", xlabel="hits", ylabel="different paths")
        left.set_title("A client each: how much it asks for")
        left.legend(frameon=False, loc="upper left")
        right.set(xlabel="share of pages among the hits of a client", ylabel="share of clients")
        right.set_title("Robots leave pictures and styles alone")
        right.legend(frameon=False, loc="upper center")
        figure.suptitle("Features of clients by Ray Data", x=0.01, ha="left", fontweight="bold")
        return _saved(figure, folder / "features.png")


def _pages(axes: Any, pages: list[tuple[str, int]]) -> None:
    names = [path if len(path) <= LONGEST_NAME else f"…{path[1 - LONGEST_NAME :]}" for path, _ in pages][::-1]
    bars = axes.barh(range(len(pages)), [visits for _, visits in pages][::-1], color=GREY, height=0.7)
    axes.bar_label(bars, padding=3, fmt="{:,.0f}")
    axes.set_yticks(range(len(pages)), names)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title("Pages with the most visits")


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
