"""Checks of ports, listeners, versions, Ray and secrets of machines. Pure."""

from __future__ import annotations

import ipaddress
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from .findings import Finding, Severity, sysctl_fix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .facts import (
        AdvertisedFacts,
        CertificateFacts,
        MachineFacts,
        SecretFileFacts,
        ServerFacts,
        VersionFacts,
    )

EXPIRY_WARNING_DAYS, EXPIRY_SOON_DAYS = 30, 7
OLDEST_PYTHON = (3, 11)
OTHERS_CAN_READ = 0o077


def check_ports(machine: MachineFacts) -> Iterator[Finding]:
    """Ports that servers of the machine need, and those of other machines that it must reach."""
    for port in machine.ports:
        address = f"{port.host}:{port.port}"
        if port.state == "taken":
            problem = f"port {address} is in use by {port.owner or 'another process'}"
            fix = f"sudo ss -ltnp 'sport = :{port.port}'  # end that process, or choose another port"
            yield Finding("port", Severity.ERROR, machine.name, problem, fix)
        elif port.state == "unusable":
            fix = "ip -brief address  # the addresses of this machine"
            if port.port < 1024 and "ermission" in port.detail:
                fix = sysctl_fix("net.ipv4.ip_unprivileged_port_start", f"{port.port}")
            problem = f"a server cannot listen on {address}: {port.detail}"
            yield Finding("port", Severity.ERROR, machine.name, problem, fix)
    for reach in machine.reach:
        if reach.error:
            port_text = reach.address.rpartition(":")[2]
            problem = f"no connection to {reach.address}: {reach.error}"
            fix = f"sudo ufw allow proto tcp to any port {port_text}  # on the machine of {reach.address}"
            yield Finding("reachable", Severity.ERROR, machine.name, problem, fix)
    yield from _ephemeral(machine)


def _ephemeral(machine: MachineFacts) -> Iterator[Finding]:
    words = machine.kernel.sysctls.get("net.ipv4.ip_local_port_range", "").split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return
    low, high = map(int, words)
    reserved = machine.kernel.sysctls.get("net.ipv4.ip_local_reserved_ports", "")
    inside = sorted({port.port for port in machine.ports if low <= port.port <= high})
    open_to_others = [port for port in inside if not _is_reserved(port, reserved)]
    if open_to_others:
        numbers = ",".join(map(str, open_to_others))
        problem = (
            f"ports {numbers} are in the range of outgoing connections ({low} to {high}): one of these may"
            " have the port when a server restarts"
        )
        value = ",".join(filter(None, (reserved, numbers)))
        fix = sysctl_fix("net.ipv4.ip_local_reserved_ports", value)
        yield Finding("ephemeral-port", Severity.INFO, machine.name, problem, fix)


def _is_reserved(port: int, reserved: str) -> bool:
    for part in filter(None, reserved.split(",")):
        first, _, last = part.partition("-")
        if int(first) <= port <= int(last or first):
            return True
    return False


def check_advertised(advertised: Sequence[AdvertisedFacts], machines: int) -> Iterator[Finding]:
    """Addresses that clients get must resolve, and name the machine for others than itself."""
    for each in advertised:
        host = each.address.rpartition(":")[0].strip("[]")
        what = f"{each.server} advertises {each.listener}://{each.address}"
        fix = f"headrace config alter --node {each.server.rpartition('-')[2]}"
        fix += f" --set advertised.listeners={each.listener}://HOST:{each.address.rpartition(':')[2]}"
        if each.error:
            problem = f"{what}, which does not resolve: {each.error}"
            yield Finding("advertised", Severity.ERROR, "cluster", problem, fix)
        elif machines > 1 and each.resolved and all(map(_is_loopback, each.resolved)):
            problem = f"{what}: clients of other machines connect to themselves ({host})"
            yield Finding("advertised", Severity.ERROR, "cluster", problem, fix)


def check_versions(machines: Sequence[MachineFacts]) -> Iterator[Finding]:
    """Each machine by itself, and versions that must be equal on all."""
    for machine in machines:
        yield from _own_versions(machine.name, machine.versions)
    for name, versions in _by_name(machines).items():
        if len(versions) > 1:
            shown = "; ".join(
                f"{version or 'none'} on {', '.join(sorted(where))}"
                for version, where in sorted(versions.items())
            )
            newest = max(versions, key=_version_key)
            is_hard = name in ("headrace", "ray", "python")
            severity = Severity.ERROR if name in ("ray", "python") else Severity.WARNING
            problem = f"the machines have different versions of {name}: {shown}"
            fix = f"~/headrace/venv/bin/python -m pip install {name}=={newest}"
            if name == "python":
                fix = f"python{'.'.join(newest.split('.')[:2])} -m venv --upgrade ~/headrace/venv"
            yield Finding("versions", severity if is_hard else Severity.INFO, "cluster", problem, fix)


def _own_versions(where: str, versions: VersionFacts) -> Iterator[Finding]:
    if versions.python and _version_key(versions.python)[:2] < OLDEST_PYTHON:
        problem = f"Python {versions.python} is older than 3.11"
        yield Finding("python", Severity.ERROR, where, problem, "sudo apt-get install -y python3.11-venv")
    reinstall = "python -m pip install --force-reinstall --no-deps headrace"
    if versions.codec != "compiled":
        problem = "the codec is not compiled: producing and consuming is many times slower"
        yield Finding("codec", Severity.WARNING, where, problem, f"unset HEADRACE_CODEC; {reinstall}")
    elif versions.interpreted:
        total = versions.interpreted + versions.compiled
        problem = f"{versions.interpreted} of {total} hot modules run as Python: servers use more CPU"
        yield Finding("compiled-modules", Severity.INFO, where, problem, reinstall)
    if not versions.has_curve:
        problem = f"libzmq {versions.libzmq} has no CURVE: the native listeners cannot be encrypted"
        yield Finding(
            "libzmq", Severity.WARNING, where, problem, "python -m pip install --force-reinstall pyzmq"
        )
    if versions.libraries.get("pyspark") and not versions.java:
        problem = "PySpark is installed, and no Java: Spark cannot start"
        yield Finding(
            "java", Severity.WARNING, where, problem, "sudo apt-get install -y openjdk-17-jdk-headless"
        )


def check_servers(servers: Sequence[ServerFacts], machines: Sequence[MachineFacts]) -> Iterator[Finding]:
    """Servers that run an older version than the one installed on their machine."""
    installed = {machine.address: machine.versions.headrace for machine in machines}
    for server in servers:
        wanted = installed.get(server.address, "")
        if server.version and wanted and server.version != wanted:
            problem = f"{server.name} runs headrace {server.version}, and {wanted} is installed"
            fix = f"headrace restart {server.name}"
            yield Finding("old-process", Severity.WARNING, "cluster", problem, fix)


def check_ray(machines: Sequence[MachineFacts]) -> Iterator[Finding]:
    """Settings of Ray that decide about the servers that it runs."""
    for machine in machines:
        ray = machine.ray
        if ray is None:
            continue
        if ray.niceness:
            problem = (
                f"Ray starts servers with niceness {ray.niceness}: all other processes precede them, and a"
                " busy machine fences its node"
            )
            fix = "ray stop && RAY_worker_niceness=0 ray start ...  # with the arguments of this machine"
            yield Finding("ray-niceness", Severity.WARNING, machine.name, problem, fix)
        if ray.gcs_storage == "" and len(machines) > 1:
            problem = (
                "the state of Ray's head is in memory: a restart of the head ends all servers, and nothing"
                " starts them again"
            )
            fix = "RAY_gcs_storage=rocksdb RAY_gcs_storage_path=~/headrace/gcs ray start --head ..."
            yield Finding("ray-head", Severity.WARNING, machine.name, problem, fix)
        if ray.auth_mode == "disabled" and len(machines) > 1:
            problem = "Ray accepts commands from every machine that reaches its ports: no token is required"
            fix = "RAY_AUTH_MODE=token ray start ...  # on all machines, with one ~/.ray/auth_token"
            yield Finding("ray-token", Severity.WARNING, machine.name, problem, fix)


def check_secrets(machine: MachineFacts) -> Iterator[Finding]:
    """Files with keys that others can read, and certificates that expire."""
    yield from secret_modes(machine.name, machine.secrets)
    for found in machine.certificates:
        yield from certificate_expiry(machine.name, found, "headrace security rotate --certificates")


def secret_modes(where: str, files: Sequence[SecretFileFacts]) -> Iterator[Finding]:
    """Files with a secret that others can read."""
    for file in files:
        if file.mode & OTHERS_CAN_READ:
            problem = f"{file.path} has mode {file.mode:04o}: other users can read a secret"
            yield Finding(
                "secret-mode", Severity.ERROR, where, problem, f"chmod 600 {shlex.quote(file.path)}"
            )


def certificate_expiry(where: str, found: CertificateFacts, fix: str) -> Iterator[Finding]:
    """A certificate that has expired, or will soon; `fix` replaces it."""
    if found.days_left <= EXPIRY_WARNING_DAYS:
        is_soon = found.days_left <= EXPIRY_SOON_DAYS
        state = f"expires in {found.days_left:.0f} days" if found.days_left > 0 else "has expired"
        problem = f"the certificate {found.subject or found.path} in {found.path} {state}"
        yield Finding("certificate", Severity.ERROR if is_soon else Severity.WARNING, where, problem, fix)


def _by_name(machines: Sequence[MachineFacts]) -> dict[str, dict[str, set[str]]]:
    """Names of distributions, their versions, and the machines of each."""
    found = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    for machine in machines:
        versions = machine.versions
        every = {"python": versions.python, "headrace": versions.headrace, **versions.libraries}
        for name, version in every.items():
            found[name][version].add(machine.name)
    return found


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
