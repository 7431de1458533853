"""Findings of the doctor: severity, problem, and the command that fixes it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(IntEnum):
    """ERROR: a server fails or records can be lost. WARNING: slow, or a failure away from an error. INFO:
    worth knowing."""

    INFO = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Finding:
    """One problem. `where` is a machine or "cluster"; `fix` is a command for a shell of that machine."""

    check: str
    severity: Severity
    where: str
    problem: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "check": self.check,
            "severity": self.severity.name.lower(),
            "where": self.where,
            "problem": self.problem,
            "fix": self.fix,
        }


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by machine and check."""
    return sorted(set(findings), key=lambda each: (-each.severity, each.where, each.check, each.problem))


def sysctl_fix(name: str, value: str) -> str:
    """Set a kernel setting now and after a restart of the machine."""
    file = f"/etc/sysctl.d/90-headrace-{name.replace('.', '-').replace('_', '-')}.conf"
    line = f"{name}={value}"
    return f"echo {shlex.quote(line)} | sudo tee {file} && sudo sysctl -p {file}"


def limit_fix(item: str, value: str) -> str:
    """Raise a resource limit of all users; it applies to new sessions."""
    unit = {"nofile": "LimitNOFILE", "nproc": "LimitNPROC", "memlock": "LimitMEMLOCK"}[item]
    return (
        f"echo '* - {item} {value}' | sudo tee /etc/security/limits.d/90-headrace-{item}.conf"
        f"  # log in again, restart Ray; in a systemd unit: {unit}={value}"
    )
