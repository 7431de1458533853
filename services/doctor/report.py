"""The report of the doctor: facts, findings, and their text. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from .cluster_checks import check_cluster
from .config_checks import check_configs
from .disk_checks import check_disks
from .facts import to_json
from .findings import Finding, Severity, sorted_findings
from .machine_checks import check_machine
from .peer_checks import (
    check_advertised,
    check_ports,
    check_ray,
    check_secrets,
    check_servers,
    check_versions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .config_facts import ConfigFacts
    from .facts import AdvertisedFacts, ClusterFacts, MachineFacts, ServerFacts

GIB = 1 << 30


@dataclass(frozen=True)
class Report:
    """Facts of machines and of the cluster, what could not be checked, and the findings. `configs` are those
    of servers of the first machine; `nodes` is the number of storage nodes that the cluster will have, None
    for that of `cluster`."""

    machines: Sequence[MachineFacts]
    cluster: ClusterFacts | None = None
    advertised: Sequence[AdvertisedFacts] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    unreachable: str = ""
    servers: Sequence[ServerFacts] = ()
    configs: Sequence[ConfigFacts] = ()
    nodes: int | None = None

    def findings(self) -> list[Finding]:
        """All problems, the worst first."""
        return sorted_findings(self._findings())

    def _findings(self) -> Iterator[Finding]:
        for machine in self.machines:
            yield from check_machine(machine)
            yield from check_disks(machine)
            yield from check_ports(machine)
            yield from check_secrets(machine)
        if self.configs:
            known = self.nodes or (len(self.cluster.nodes) if self.cluster is not None else None)
            yield from check_configs(self.machines[0], self.configs, known)
        yield from check_versions(self.machines)
        yield from check_servers(self.servers, self.machines)
        yield from check_ray(self.machines)
        yield from check_advertised(self.advertised, len(self.machines))
        if self.cluster is not None:
            yield from check_cluster(self.cluster)
        for address, error in self.silent.items():
            problem = f"no answer: {error}; perhaps it has another version of headrace"
            fix = "~/headrace/venv/bin/python -m headrace doctor  # on that machine"
            yield Finding("machine", Severity.ERROR, address, problem, fix)
        if self.unreachable:
            problem = f"the cluster does not answer: {self.unreachable}"
            yield Finding("cluster", Severity.ERROR, "cluster", problem, "headrace status")

    def to_json(self) -> dict[str, Any]:
        """JSON-able, with all facts."""
        findings = self.findings()
        return {
            "ok": not any(each.severity is Severity.ERROR for each in findings),
            "counts": counts(findings),
            "findings": [each.to_json() for each in findings],
            "machines": [to_json(machine) for machine in self.machines],
            "cluster": None if self.cluster is None else to_json(self.cluster),
            "advertised": [to_json(each) for each in self.advertised],
            "servers": [to_json(each) for each in self.servers],
            "configs": [to_json(each) for each in self.configs],
        }


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """The number of findings by severity."""
    return {
        severity.name.lower(): sum(1 for each in findings if each.severity is severity)
        for severity in sorted(Severity, reverse=True)
    }


def lines(report: Report) -> Iterator[str]:
    """The report as text: a line per machine, then each problem with its command."""
    for machine in report.machines:
        yield machine_line(machine)
    for config in report.configs:
        yield f"{config.path}: {config.name or config.role}{', which runs' if config.is_running else ''}"
    if report.cluster is not None:
        found = report.cluster
        voters, topics = len(found.voters), len(found.topics)
        yield f"cluster {found.cluster_id}: {len(found.nodes)} nodes, {voters} controllers, {topics} topics"
    findings = report.findings()
    for each in findings:
        yield ""
        yield f"{each.severity.name:<8} {each.where}: {each.problem}"
        yield f"         fix: {each.fix}"
    yield ""
    shown = counts(findings)
    yield f"{shown['error']} errors, {shown['warning']} warnings, {shown['info']} notes"


def machine_line(machine: MachineFacts) -> str:
    """The main facts of a machine."""
    versions, kernel = machine.versions, machine.kernel
    parts = [
        f"Linux {kernel.release}",
        f"{kernel.cpus} CPUs",
        f"{machine.memory.total_bytes / GIB:.0f} GiB",
        f"Python {versions.python}",
        f"headrace {versions.headrace}",
        f"Ray {versions.libraries.get('ray', 'none')}",
    ]
    for disk in machine.disks:
        speed = f", fsync {median(disk.fsync_ms):.1f} ms" if disk.fsync_ms else ""
        parts.append(f"{disk.path} on {disk.kind} {disk.device}{speed}")
    where = f"{machine.name} ({machine.address})" if machine.address else machine.name
    return f"{where}: {'; '.join(parts)}"
