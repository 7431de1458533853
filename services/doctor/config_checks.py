"""Checks of the config files of servers before their start. Pure."""

from __future__ import annotations

import ipaddress
import shlex
from itertools import combinations
from typing import TYPE_CHECKING

from ...runtime.listener_address import is_wildcard
from ..server.config_edits import replace_port, set_key, set_to_output
from ..server.config_file import CONTROLLER, ROLES
from ..server.config_mistakes import TWICE
from .config_facts import BASE, REPLICATION_KEYS
from .findings import Finding, Severity
from .peer_checks import certificate_expiry, secret_modes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .config_facts import ConfigFacts, ListenerFacts
    from .facts import MachineFacts

MIB = 1 << 20
BUDGET_WARNING = 0.75  # of the memory: the rest is page cache, from which consumers read
MAX_PORT = 65_535


def check_configs(
    machine: MachineFacts, configs: Sequence[ConfigFacts], nodes: int | None
) -> Iterator[Finding]:
    """All checks of the files of one machine. `nodes` is the number of storage nodes of the cluster, None if
    it is unknown."""
    for config in configs:
        yield from _mistakes(machine.name, config)
        yield from _addresses(machine.name, config)
        yield from _keys(machine.name, config)
        yield from _owners(machine.name, config)
        yield from _replication(machine.name, config, nodes)
        yield from _ports(machine, config)
    yield from _twice(machine.name, configs)
    yield from _memory(machine, configs)


def _mistakes(where: str, config: ConfigFacts) -> Iterator[Finding]:
    for each in config.mistakes:
        severity = Severity.WARNING if each.kind == TWICE else Severity.ERROR
        yield Finding("config", severity, where, f"{config.path}: {each.problem}", each.fix)


def _addresses(where: str, config: ConfigFacts) -> Iterator[Finding]:
    """Hosts that others have to reach, and the controllers that this server has to reach."""
    remote = [address for address in config.controllers if not _is_loopback(address.rpartition(":")[0])]
    for host, error in config.hosts.items():
        if error:
            problem = f"{config.path}: the advertised host {host} does not resolve: {error}"
            fix = set_to_output(config.path, "advertised.host", "hostname -f")
            yield Finding("advertised-host", Severity.ERROR, where, problem, fix)
        elif _is_loopback(host) and remote:
            problem = (
                f"{config.path}: {config.name} advertises {host}, and {remote[0]} is on another machine,"
                " which then connects to itself"
            )
            fix = set_to_output(config.path, "advertised.host", "hostname -f")
            fix += f" && {set_key(config.path, 'listener.host', '0.0.0.0')}"  # noqa: S104 -- the fix
            yield Finding("advertised-host", Severity.ERROR, where, problem, fix)
    silent = [each for each in config.reach if each.error]
    is_alone = config.role != CONTROLLER and len(silent) == len(config.reach)
    for each in silent:
        severity = Severity.WARNING if is_alone else Severity.INFO
        problem = f"{config.path}: no connection to the controller at {each.address}: {each.error}"
        fix = f"sudo systemctl start headrace-controller  # on the machine of {each.address}"
        yield Finding("controller", severity, where, problem, fix)


def _keys(where: str, config: ConfigFacts) -> Iterator[Finding]:
    for fault in config.key_faults:
        fix = f"grep -nE '^(ssl|metrics|server|trusted|listener)' {shlex.quote(config.path)}  # its files"
        yield Finding("keys", Severity.ERROR, where, f"{config.path}: {fault}", fix)
    yield from secret_modes(where, config.secrets)
    for found in config.certificates:
        fix = f"openssl x509 -noout -subject -enddate -in {shlex.quote(found.path)}"
        fix += "  # replace the file: a running server loads it within a second"
        yield from certificate_expiry(where, found, fix)


def _owners(where: str, config: ConfigFacts) -> Iterator[Finding]:
    for data_dir, owner in config.owners.items():
        if owner != config.server_id >= 0:
            problem = (
                f"{config.path}: {data_dir} has the data of {config.role} {owner}, not {config.server_id}"
            )
            fix = f"{set_key(config.path, 'node.id', str(owner))}  # or another data dir"
            yield Finding("data-dir-owner", Severity.ERROR, where, problem, fix)


def _replication(where: str, config: ConfigFacts, nodes: int | None) -> Iterator[Finding]:
    for key, minimum_key in REPLICATION_KEYS.items():
        replicas, minimum = config.replication.get(key, 0), config.replication.get(minimum_key, 0)
        if nodes is not None and replicas > nodes:
            problem = (
                f"{config.path}: {key} is {replicas}, and the cluster has {nodes} nodes: topics that use it"
                " are not created"
            )
            fix = set_key(config.path, key, str(max(nodes, 1)))
            yield Finding("replication-factor", Severity.ERROR, where, problem, fix)
        elif minimum >= replicas > 1:
            problem = (
                f"{config.path}: {minimum_key} is {minimum} of {replicas} replicas: one missing node stops"
                " acks=all"
            )
            fix = set_key(config.path, minimum_key, str(replicas - 1))
            yield Finding("min-isr", Severity.WARNING, where, problem, fix)


def _ports(machine: MachineFacts, config: ConfigFacts) -> Iterator[Finding]:
    """Ports of other servers; those of other programs are found with the machine."""
    used = {(each.host, each.port): each.owner for each in machine.ports if each.state == "headrace"}
    for each in () if config.is_running else config.listeners:
        if (each.host, each.port) in used:
            problem = (
                f"{config.path}: {each.key} needs port {each.port}, which another server has:"
                f" {used[each.host, each.port]}"
            )
            fix = replace_port(config.path, each.key, each.port, min(each.port + 10, MAX_PORT))
            yield Finding("port-of-server", Severity.ERROR, machine.name, problem, fix)


def _twice(where: str, configs: Sequence[ConfigFacts]) -> Iterator[Finding]:
    """What only one server, or one listener of a server, can have."""
    listeners = [(config, each) for config in configs for each in config.listeners]
    for (one, first), (two, second) in combinations(listeners, 2):
        if first.port == second.port and _overlap(first, second):
            problem = (
                f"port {first.port} is that of {first.key} in {one.path} and of {second.key} in {two.path}"
            )
            fix = replace_port(two.path, second.key, second.port, min(second.port + 10, MAX_PORT))
            yield Finding("port-twice", Severity.ERROR, where, problem, fix)
    for one, two in combinations(configs, 2):
        shared = [each for each in two.data_dirs if each in one.data_dirs]
        if shared:
            problem = f"{one.path} and {two.path} share the data dir {shared[0]}"
            key = "metadata.log.dir" if two.role == CONTROLLER else "log.dirs"
            fix = set_key(two.path, key, f"{shared[0]}-2")
            yield Finding("data-dir-twice", Severity.ERROR, where, problem, fix)
        if one.role == two.role and one.server_id == two.server_id >= 0:
            problem = f"{one.path} and {two.path} are both {ROLES[one.role]} {one.server_id}"
            fix = set_key(two.path, "node.id", str(two.server_id + 1))
            yield Finding("server-id", Severity.ERROR, where, problem, fix)


def _memory(machine: MachineFacts, configs: Sequence[ConfigFacts]) -> Iterator[Finding]:
    limit = machine.memory.group_limit_bytes or machine.memory.total_bytes
    budget = sum(sum(config.memory_bytes.values()) for config in configs)
    if not limit or budget <= limit * BUDGET_WARNING:
        return
    config = max(configs, key=lambda each: sum(each.memory_bytes.values()))
    key, largest = max((bound, key) for key, bound in config.memory_bytes.items() if key != BASE)[::-1]
    what = "the control group" if machine.memory.group_limit_bytes else "the machine"
    problem = (
        f"the configs allow servers {budget // MIB} MiB, and {what} has {limit // MIB} MiB, from which the"
        f" page cache comes too; the largest bound is {key} of {config.path}"
    )
    severity = Severity.ERROR if budget > limit else Severity.WARNING
    fix = f"{set_key(config.path, key, str(max(largest // 2, MIB)))}  # or more memory"
    yield Finding("memory-budget", severity, machine.name, problem, fix)


def _overlap(one: ListenerFacts, other: ListenerFacts) -> bool:
    """Whether both cannot listen at once."""
    return one.host == other.host or is_wildcard(one.host) or is_wildcard(other.host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
