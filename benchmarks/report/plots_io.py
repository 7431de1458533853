"""The pictures of docs/BENCHMARKS.md and the README; equal results give equal files."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ..plan import GROUPS
from .overview import PANELS
from .results import used

if TYPE_CHECKING:
    from pathlib import Path

COLORS = {"met": "#2e7d32", "missed": "#c62828", "not resolved": "#9e9e9e", "beside": "#90a4ae"}
SYSTEM_COLORS = {"kafka": "#6a6a6a", "headrace": "#1565c0"}
_OPTIONS: dict[str, Any] = {"svg.hashsalt": "headrace", "svg.fonttype": "none", "font.size": 8}
_MORE = ("r3-50", "r3-ping", "w18-50-1k", "w18-r3-50-1k")
_TICKS = (0, 50, 90, 99, 99.9, 99.99)


def write(results: dict[str, Any], folder: Path) -> None:
    """Write ratios.svg, latency.svg and overview.svg to `folder`."""
    import matplotlib as mpl

    mpl.use("svg")
    with mpl.rc_context(_OPTIONS):
        _ratios(results, folder / "ratios.svg")
        _latency(results, folder / "latency.svg")
        _overview(results, folder / "overview.svg")


def _ratios(results: dict[str, Any], path: Path) -> None:
    """One bar per goal with a ratio, its interval, and a tick at the goal; 1 is Kafka (or the other side)."""
    from matplotlib import pyplot as plt

    rows = [row for row in results["comparisons"] if row["goal"] is not None and "ratio" in row][::-1]
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(rows) + 0.8))
    for place, row in enumerate(rows):
        low, high = row["ratio"] - row["low"], row["high"] - row["ratio"]
        axes.barh(place, row["ratio"], height=0.6, color=COLORS[row["verdict"]])
        axes.errorbar(row["ratio"], place, xerr=[[low], [high]], color="black", capsize=2, linewidth=0.8)
        axes.plot([row["goal"]] * 2, [place - 0.45, place + 0.45], color="black", linewidth=1.5)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.5, linestyle=":")
    axes.set_yticks(range(len(rows)), [f"{row['title'].replace('`', '')} / {row['below']}" for row in rows])
    axes.set_xlabel(
        "ratio; thick tick: the goal\ngreen met, red missed, grey not resolved, blue beside a goal"
    )
    _save(figure, path)


def _latency(results: dict[str, Any], path: Path) -> None:
    """e2e latency by percentile, one panel per open-loop group."""
    import math

    from matplotlib import pyplot as plt

    ran = {run["group"] for run in results["runs"]}
    kinds = ("W6", "W7")
    shown = [group for group in GROUPS if group.workload in kinds or group.id in _MORE]
    groups = [group for group in shown if group.id in ran]
    columns = max(min(len(groups), 3), 1)
    lines = max(-(-len(groups) // columns), 1)
    figure, panels = plt.subplots(lines, columns, figsize=(3.2 * columns, 2.4 * lines), squeeze=False)

    def place(percent: float) -> float:
        return -math.log10(1 - min(percent, 99.999) / 100)

    for panel, group in zip(panels.flat, groups, strict=False):
        for cell in group.cells:
            curves = [
                run["curve"] for run in used(results["runs"], group.id, cell.name).values() if "curve" in run
            ]
            points = list(zip(*curves, strict=True))
            xs = [place(point[0][0]) for point in points]
            ys = [statistics.median(value for _, value in point) for point in points]
            panel.plot(xs, ys, color=SYSTEM_COLORS[cell.system], label=cell.system, linewidth=1.2)
        panel.set_yscale("log")
        panel.set_title(group.id)
        panel.set_xticks([place(tick) for tick in _TICKS], [str(tick) for tick in _TICKS])
        panel.set_ylabel("ms")
        panel.legend()
    for panel in panels.flat[len(groups) :]:
        panel.axis("off")
    _save(figure, path)


def _overview(results: dict[str, Any], path: Path) -> None:
    """Million records/s of one node, medians: each way to produce and consume, one panel per record size."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(PANELS), figsize=(9, 2.6))
    for panel, (title, bars) in zip(panels, PANELS, strict=True):
        writing = bars[0][2]
        places = [index + 0.6 * (group != writing) for index, (_, _, group, _) in enumerate(bars)]
        for place, (_, system, group, cell) in zip(places, bars, strict=True):
            found = used(results["runs"], group, cell).values()
            rates = [run["records_per_s"] for run in found if "records_per_s" in run]
            rate = statistics.median(rates) / 1e6 if rates else 0.0
            panel.barh(place, rate, height=0.7, color=SYSTEM_COLORS[system])
            panel.annotate(
                f"{rate:.2f}", (rate, place), xytext=(3, 0), textcoords="offset points", va="center"
            )
        panel.set_yticks(places, [label for label, *_ in bars])
        panel.invert_yaxis()
        panel.margins(x=0.15)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_title(title)
        panel.set_xlabel("million records/s")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure.tight_layout()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
