"""Reads the facts of this machine from /proc, /sys and the C library."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
import socket
import subprocess
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ...protocol.records.environment_io import codec_choice
from ...runtime.compiled_io import HOT_MODULES, built_of, source_of
from .disks_io import disk_facts
from .facts import (
    UNLIMITED,
    ClockFacts,
    KernelFacts,
    LimitFacts,
    MachineFacts,
    MemoryFacts,
    RayFacts,
    VersionFacts,
)
from .ports_io import port_facts
from .secrets_io import certificate_facts, secret_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

SYSCTLS = (
    "vm.max_map_count",
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.overcommit_memory",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "fs.file-max",
)
LIBRARIES = (
    "ray",
    "pyzmq",
    "msgspec",
    "uvloop",
    "cramjam",
    "lz4",
    "zstandard",
    "kio",
    "pyarrow",
    "pyspark",
    "rocksdict",
)
STA_UNSYNC = 0x40
JAVA_TIMEOUT_S = 10.0
_UNLIMITED_GROUP = 1 << 60  # what the kernel prints for no limit


def machine_facts(
    data_dirs: Iterable[str], ports: Iterable[tuple[str, int]] = (), name: str = "", address: str = ""
) -> MachineFacts:
    """Everything about this machine. `data_dirs` are those of servers, on which the speed of fsync is
    measured; `ports` are host and port of listeners."""
    dirs = list(dict.fromkeys(data_dirs))
    return MachineFacts(
        name=name or socket.gethostname(),
        address=address,
        limits=limit_facts(),
        disks=tuple(map(disk_facts, dirs)),
        clock=clock_facts(),
        memory=memory_facts(),
        kernel=kernel_facts(),
        versions=version_facts(),
        ports=tuple(port_facts(host, port) for host, port in dict.fromkeys(ports)),
        secrets=tuple(secret_facts(dirs)),
        certificates=tuple(certificate_facts(dirs)),
        ray=None,
    )


def limit_facts() -> LimitFacts:
    """The limits of this process."""
    soft, hard = _limits(resource.RLIMIT_NOFILE)
    return LimitFacts(
        open_files=soft,
        open_files_hard=hard,
        locked_memory=_limits(resource.RLIMIT_MEMLOCK)[0],
        processes=_limits(resource.RLIMIT_NPROC)[0],
        core_size=_limits(resource.RLIMIT_CORE)[0],
    )


def _limits(which: int) -> tuple[int, int]:
    soft, hard = (UNLIMITED if v == resource.RLIM_INFINITY else v for v in resource.getrlimit(which))
    return soft, hard


class _Timex(ctypes.Structure):
    """The head of struct timex of Linux. Source: adjtimex(2)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def clock_facts() -> ClockFacts:
    """What the kernel says about its clock; reading needs no rights."""
    source = _text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return ClockFacts(source=source)
    if state < 0:
        return ClockFacts(source=source)
    is_synchronised = not timex.status & STA_UNSYNC
    return ClockFacts(is_synchronised=is_synchronised, max_error_s=timex.maxerror / 1e6, source=source)


def memory_facts() -> MemoryFacts:
    """Of the machine, and of the control group of this process (version 1 or 2)."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit, used, cpus, kills = _group()
    return MemoryFacts(
        total_bytes=memory.total,
        available_bytes=memory.available,
        swap_total_bytes=swap.total,
        swap_used_bytes=swap.used,
        group_limit_bytes=limit if limit < min(_UNLIMITED_GROUP, memory.total) else 0,
        group_used_bytes=used,
        group_cpus=cpus,
        oom_kills=kills,
    )


def _group() -> tuple[int, int, float, int]:
    """Memory limit and use, CPUs, OOM kills."""
    paths = dict[str, str]()
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    root = Path("/sys/fs/cgroup")
    unified = root if (root / "cgroup.controllers").exists() else root / "unified"
    own = _existing(unified, paths.get("", "/"))
    if (own / "memory.max").exists():
        quota, _, period = _text(own / "cpu.max").partition(" ")
        cpus = int(quota) / int(period) if quota.isdigit() and period.isdigit() else 0.0
        events = dict(line.split() for line in _text(own / "memory.events").splitlines())
        used = _number(own / "memory.current") - _inactive_file(own / "memory.stat", "inactive_file")
        return _number(own / "memory.max"), max(used, 0), cpus, int(events.get("oom_kill", 0))
    memory, cpu = (
        _existing(root / "memory", paths.get("memory", "/")),
        _existing(root / "cpu", paths.get("cpu", "/")),
    )
    quota_us, period_us = _number(cpu / "cpu.cfs_quota_us"), _number(cpu / "cpu.cfs_period_us")
    used = _number(memory / "memory.usage_in_bytes")
    used -= _inactive_file(memory / "memory.stat", "total_inactive_file")
    cpus = quota_us / period_us if quota_us > 0 and period_us > 0 else 0.0
    return _number(memory / "memory.limit_in_bytes"), max(used, 0), cpus, 0


def _inactive_file(file: Path, name: str) -> int:
    """Page cache that the kernel frees first; the group's limit counts it."""
    found = dict(line.split(" ", 1) for line in _text(file).splitlines() if " " in line)
    return int(found.get(name, 0))


def _existing(root: Path, path: str) -> Path:
    """The folder of a group; inside a container only the root of the hierarchy is there."""
    own = root / path.lstrip("/")
    return own if own.exists() else root


def kernel_facts() -> KernelFacts:
    """Settings of this kernel."""
    sysctls = {name: " ".join(_text(f"/proc/sys/{name.replace('.', '/')}").split()) for name in SYSCTLS}
    pages = _text("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = next((word.strip("[]") for word in pages.split() if word.startswith("[")), "")
    governors = {
        _text(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    return KernelFacts(
        release=platform.release(),
        sysctls={name: value for name, value in sysctls.items() if value},
        huge_pages=chosen,
        governors=tuple(sorted(governors)),
        cpus=os.cpu_count() or 1,
    )


def version_facts() -> VersionFacts:
    """Versions of this Python and its libraries, and of the Java on the path."""
    import zmq

    compiled = sum(1 for name in HOT_MODULES if _is_compiled(name))
    return VersionFacts(
        python=platform.python_version(),
        headrace=_version("headrace"),
        libraries={name: found for name in LIBRARIES if (found := _version(name))},
        libzmq=zmq.zmq_version(),
        has_curve=bool(zmq.has("curve")),
        codec=_codec(),
        compiled=compiled,
        interpreted=len(HOT_MODULES) - compiled,
        java=_java(),
    )


def ray_facts(*, is_worker: bool) -> RayFacts:
    """The Ray of this machine. `is_worker`: this process is one, so that its niceness is that of servers."""
    return RayFacts(
        niceness=os.nice(0) if is_worker else None,
        gcs_storage=_gcs_storage(),
        auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
    )


def _gcs_storage() -> str | None:
    """From the environment and the arguments of the GCS process; None if there is none to be read."""
    for process in psutil.process_iter(("name",)):
        if process.info["name"] == "gcs_server":
            try:
                if redis := [word for word in process.cmdline() if word.startswith("--redis_address=")]:
                    return "redis" if redis[0].partition("=")[2] else ""
                kind = process.environ().get("RAY_gcs_storage", "")
            except psutil.Error:
                continue
            return "" if kind == "memory" else kind
    return None


def _codec() -> str:
    """The codec that servers of this environment use."""
    is_built = find_spec("headrace.protocol.records._batch") is not None
    return "compiled" if is_built and codec_choice() in (None, "compiled") else "python"


def _is_compiled(name: str) -> bool:
    """Whether there is a build of the current source of a hot module; the module is not imported."""
    try:
        return built_of(source_of(name)).exists()
    except OSError:
        return False


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    if not program:
        return ""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if done.returncode:
        return ""
    # "NOTE: Picked up JDK_JAVA_OPTIONS: ..." may precede the version
    return next((line for line in done.stderr.splitlines() if " version " in line), "")


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else 0
