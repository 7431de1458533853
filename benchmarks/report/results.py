"""results.json: runs, the comparisons and goals drawn from them, and facts about the machine. Pure."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any

from ..plan import GROUPS, LATER
from .statistics import MET, MISSED, estimate, ratios, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..group import Comparison, Group

ABSENT = "absent"
BESIDE = "beside"  # shown next to the judged row
CEILINGS = "bare-64k"
START_GOALS = (
    ("`headrace.local()`: seconds until ready", ("local", "seconds"), 0.5, "s"),
    ("`headrace up --nodes 3` on Ray: seconds until ready", ("up", "seconds"), 10.0, "s"),
    ("an idle node: resident MB", ("idle", "rss_mb"), 150.0, "MB"),
    ("an idle node as a Ray actor: resident MB", ("up", "node_rss_mb"), 150.0, "MB"),
    ("an idle node: CPU, % of a core", ("idle", "cpu_percent"), 1.0, "%"),
)


def used(runs: Iterable[dict[str, Any]], group: str, cell: str) -> dict[int, dict[str, Any]]:
    """The runs of one cell that count, by pair; repeated ones do not."""
    return {
        run["pair"]: run for run in runs if run["group"] == group and run["cell"] == cell and run["is_used"]
    }


def compare(runs: list[dict[str, Any]], group: Group, comparison: Comparison) -> dict[str, Any]:
    """One ratio with its interval, or why there is none."""
    row: dict[str, Any] = {
        "group": group.id,
        "title": comparison.title,
        "above": comparison.above,
        "below": comparison.below,
        "metric": comparison.metric,
        "goal": comparison.goal,
        "at_least": comparison.at_least,
        "is_beside": comparison.is_beside,
    }
    above, below = used(runs, group.id, comparison.above), used(runs, group.id, comparison.below)
    absent = [run["absent"] for run in (*above.values(), *below.values()) if "absent" in run]
    if absent:
        return {**row, "verdict": ABSENT, "why": f"{absent[0]} does not exist yet"}
    pairs = sorted(above.keys() & below.keys())
    values = [[runs_of[pair].get(comparison.metric) for pair in pairs] for runs_of in (above, below)]
    if not pairs or None in (*values[0], *values[1]):
        return {**row, "verdict": ABSENT, "why": "not measured in this run"}
    if min(*values[0], *values[1]) <= 0:
        return {**row, "verdict": ABSENT, "why": "too short to be measured"}
    found = estimate(ratios(*values))
    row |= {"ratio": found.median, "low": found.low, "high": found.high, "pairs": found.pairs,
            "is_resolved": found.is_resolved}  # fmt: skip
    row |= share_of_ceiling(
        runs, [above[pair] for pair in pairs], [below[pair] for pair in pairs], comparison
    )
    if comparison.goal is not None:
        row["verdict"] = (
            BESIDE if comparison.is_beside else verdict(found, comparison.goal, at_least=comparison.at_least)
        )
    return row


def share_of_ceiling(
    runs: list[dict[str, Any]],
    above: list[dict[str, Any]],
    below: list[dict[str, Any]],
    comparison: Comparison,
) -> dict[str, float]:
    """The share of the ceiling's MB/s that `above` reaches, and the ratio that the ceiling would have.

    Empty without a ceiling, or when its cell did not run.
    """
    found = used(runs, CEILINGS, comparison.ceiling).values() if comparison.ceiling else ()
    if not found:
        return {}
    top, ours, theirs = (median(run["mb_per_s"] for run in some) for some in (found, above, below))
    return {"of_ceiling": ours / top, "ceiling_ratio": top / theirs}


def comparisons(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All comparisons of the groups that ran."""
    ran = {run["group"] for run in runs}
    return [compare(runs, group, one) for group in GROUPS if group.id in ran for one in group.comparisons]


def limits(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The goals of groups that are upper limits: the median of all pairs counts."""
    rows = []
    ran = {run["group"] for run in runs}
    known = [(group, limit) for group in GROUPS if group.id in ran for limit in group.limits]
    for group, limit in known:
        found = [
            run[limit.metric] for run in used(runs, group.id, limit.cell).values() if limit.metric in run
        ]
        row: dict[str, Any] = {"title": limit.title, "goal": limit.at_most, "unit": limit.unit}
        if found:
            value = median(found)
            rows.append({**row, "value": value, "verdict": MET if value < limit.at_most else MISSED})
        else:
            rows.append({**row, "verdict": ABSENT, "why": "not measured in this run"})
    return rows


def start_goals(startup: dict[str, Any]) -> list[dict[str, Any]]:
    """The goals that are upper limits: the worst repetition counts."""
    rows = []
    for title, (part, name), limit, unit in START_GOALS:
        value = startup.get(part, {}).get(name)
        values = value if isinstance(value, list) else [value] if value is not None else []
        row: dict[str, Any] = {"title": title, "goal": limit, "unit": unit}
        error = startup.get(part, {}).get("error")
        if error is not None:
            rows.append({**row, "verdict": MISSED, "why": error})
            continue
        if not values:
            rows.append({**row, "verdict": ABSENT, "why": "not measured in this run"})
            continue
        worst = max(values)
        state = MET if worst < limit else MISSED
        rows.append({**row, "value": worst, "verdict": state})
    return rows


def dump(found: dict[str, Any]) -> str:
    """The text of results.json: one line per run, figures with six digits."""
    head = {name: value for name, value in found.items() if name != "runs"}
    runs = ",\n".join("  " + json.dumps(rounded(run)) for run in found["runs"])
    return json.dumps(rounded(head), indent=1).removesuffix("\n}") + ',\n "runs": [\n' + runs + "\n ]\n}\n"


def rounded(value: Any) -> Any:
    """With all floats rounded to six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def assemble(
    runs: list[dict[str, Any]], startup: dict[str, Any], facts: dict[str, Any], mode: dict[str, Any]
) -> dict[str, Any]:
    """The contents of results.json."""
    return {
        "mode": mode,
        "machine": facts["machine"],
        "preparation": {name: value for name, value in facts.items() if name != "machine"},
        "comparisons": comparisons(runs),
        "limits": limits(runs),
        "startup": startup,
        "start_goals": start_goals(startup),
        "not_measured": LATER | mode.get("left_out", {}),
        "runs": runs,
    }
