"""One alert rule, and the file of rules for Prometheus. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

RUNBOOK = "https://github.com/headrace/headrace/blob/main/docs/RUNBOOK.md"
PAGE, TICKET = "page", "ticket"  # wake a person, or look at it in working hours


@dataclass(frozen=True, slots=True)
class AlertRule:
    """`hold` is how long the expression must have results, as Prometheus writes durations."""

    name: str
    expression: str
    hold: str
    severity: str
    summary: str
    description: str = ""

    @property
    def runbook_url(self) -> str:
        """The section of docs/RUNBOOK.md."""
        return f"{RUNBOOK}#{self.name.lower()}"


def rules_file(groups: Iterable[tuple[str, Iterable[AlertRule]]], hold: str | None = None) -> str:
    """The YAML of a rule file; with `hold` all alerts have this duration."""
    lines = ["# Made by `headrace telemetry rules`.", "groups:"]
    for name, rules in groups:
        lines += [f"  - name: {_quoted(f'headrace {name}')}", "    rules:"]
        for rule in rules:
            lines += [
                f"      - alert: {rule.name}",
                f"        expr: {_quoted(rule.expression)}",
                f"        for: {hold or rule.hold}",
                f"        labels: {{severity: {rule.severity}}}",
                "        annotations:",
                f"          summary: {_quoted(rule.summary)}",
            ]
            if rule.description:
                lines.append(f"          description: {_quoted(rule.description)}")
            lines.append(f"          runbook_url: {_quoted(rule.runbook_url)}")
    return "\n".join((*lines, ""))


def _quoted(text: str) -> str:
    """A string of YAML, which has JSON's."""
    return json.dumps(text, ensure_ascii=False)
