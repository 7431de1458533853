"""What the pages of benchmarks with results of their own have in common (see `command_io`). Pure."""

from __future__ import annotations

from typing import Any

from .page import VERDICTS, interval, machine_table, side


def goal_line(row: dict[str, Any]) -> str:
    """The row of a comparison in a table of goal, figure, interval, goal and verdict."""
    found = f"{row['ratio']:.2f} | {interval(row)}" if "ratio" in row else f"- | {row['why']}"
    sign = "≥" if row["at_least"] else "≤"
    state = VERDICTS[row["verdict"]] + side(row)
    return f"| {row['title']} | {found} | {sign} {row['goal']:g} | {state} |"


def stored_page(
    results: dict[str, Any], title: str, written_by: str, sections: dict[str, list[str]], method: str
) -> str:
    """A page of these sections, the machine and the method. `written_by`: the end of "Written by"."""
    load = max((about["load_before"] for about in results["groups"].values()), default=0.0)
    machine = {**results["machine"], "load_before": load}
    parts = [f"# Benchmarks: {title}", "", f"Written by {written_by}.", ""]
    for name, lines in {**sections, "Machine": machine_table(machine)}.items():
        parts += [f"## {name}", "", *lines, ""]
    return "\n".join([*parts, "## Method", "", method])
