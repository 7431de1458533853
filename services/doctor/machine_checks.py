"""Checks of a machine: limits, kernel, memory, processors, clock. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .facts import UNLIMITED
from .findings import Finding, Severity, limit_fix, sysctl_fix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .facts import ClockFacts, KernelFacts, LimitFacts, MachineFacts, MemoryFacts

MIB, GIB = 1 << 20, 1 << 30
OPEN_FILES_NEEDED, OPEN_FILES_WANTED = 4_096, 100_000
MAPS_WANTED = 65_530  # the kernel's own default; below it RocksDB and Ray run out of maps
PROCESSES_WANTED = 4_096
SWAPPINESS_MAX = 10
DIRTY_RATIO_MAX, DIRTY_BACKGROUND_MAX = 40, 20
BACKLOG_WANTED = 1_024
BUFFER_WANTED = 2 * MIB
MEMORY_WANTED = GIB
MAX_CLOCK_ERROR_S = 0.5
SKEW_WARNING_S, SKEW_ERROR_S = 0.1, 2.0


def check_machine(machine: MachineFacts) -> Iterator[Finding]:
    """All checks of this module."""
    yield from limit_checks(machine.name, machine.limits)
    yield from kernel_checks(machine.name, machine.kernel)
    yield from network_settings(machine.name, machine.kernel)
    yield from memory_checks(machine.name, machine.memory, machine.kernel)
    yield from clock_checks(machine.name, machine.clock)


def limit_checks(where: str, limits: LimitFacts) -> Iterator[Finding]:
    """Open files, processes, locked memory."""
    files = limits.open_files
    if UNLIMITED < files < OPEN_FILES_WANTED:
        severity = Severity.ERROR if files < OPEN_FILES_NEEDED else Severity.WARNING
        problem = f"{files} open files are allowed: a node needs one per segment and one per connection"
        yield Finding("open-files", severity, where, problem, limit_fix("nofile", "1048576"))
    if UNLIMITED < limits.processes < PROCESSES_WANTED:
        problem = f"{limits.processes} processes and threads are allowed for this user"
        yield Finding("processes", Severity.WARNING, where, problem, limit_fix("nproc", "65536"))
    if UNLIMITED < limits.locked_memory < 64 * 1024:
        problem = (
            f"{limits.locked_memory} bytes of memory can be locked: libsodium cannot keep CURVE keys from"
            " being swapped out"
        )
        yield Finding("locked-memory", Severity.INFO, where, problem, limit_fix("memlock", "65536"))


def kernel_checks(where: str, kernel: KernelFacts) -> Iterator[Finding]:
    """Virtual memory, huge pages, CPU frequency."""
    number = _numbers(kernel)
    if (value := number("vm.max_map_count")) is not None and value < MAPS_WANTED:
        problem = f"vm.max_map_count is {value}: processes run out of memory maps"
        yield Finding(
            "max-map-count", Severity.WARNING, where, problem, sysctl_fix("vm.max_map_count", "262144")
        )
    if (value := number("vm.swappiness")) is not None and value > SWAPPINESS_MAX:
        problem = f"vm.swappiness is {value}: the kernel swaps servers out in favour of the page cache"
        yield Finding("swappiness", Severity.WARNING, where, problem, sysctl_fix("vm.swappiness", "1"))
    if number("vm.overcommit_memory") == 2:
        problem = "vm.overcommit_memory is 2: allocations of Ray's object store and forks fail early"
        yield Finding("overcommit", Severity.WARNING, where, problem, sysctl_fix("vm.overcommit_memory", "0"))
    yield from _dirty_pages(where, kernel)
    if kernel.huge_pages == "always":
        yield Finding(
            "huge-pages",
            Severity.WARNING,
            where,
            "transparent huge pages are always on: processes stall while the kernel compacts memory",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    slow = sorted({governor for governor in kernel.governors if governor in ("powersave", "conservative")})
    if slow:
        yield Finding(
            "cpu-governor",
            Severity.WARNING,
            where,
            f"CPU frequency governor {', '.join(slow)}: processors run below their frequency",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )


def _dirty_pages(where: str, kernel: KernelFacts) -> Iterator[Finding]:
    number = _numbers(kernel)
    for name, limit, wanted in (
        ("vm.dirty_ratio", DIRTY_RATIO_MAX, "20"),
        ("vm.dirty_background_ratio", DIRTY_BACKGROUND_MAX, "5"),
    ):
        value = number(name)
        if value is not None and value > limit:
            problem = f"{name} is {value}: much unwritten data, and then long stalls while it is written"
            yield Finding("dirty-pages", Severity.WARNING, where, problem, sysctl_fix(name, wanted))


def network_settings(where: str, kernel: KernelFacts) -> Iterator[Finding]:
    """The kernel's settings of TCP."""
    number = _numbers(kernel)
    for name in ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"):
        if (value := number(name)) is not None and value < BACKLOG_WANTED:
            problem = f"{name} is {value}: connections are dropped when many clients connect at once"
            yield Finding(
                "connection-backlog",
                Severity.WARNING,
                where,
                problem,
                sysctl_fix(name, f"{4 * BACKLOG_WANTED}"),
            )
    for name in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
        words = kernel.sysctls.get(name, "").split()
        if len(words) == 3 and words[2].isdigit() and int(words[2]) < BUFFER_WANTED:
            problem = f"{name} allows {words[2]} bytes: replication over a long distance is slow"
            fix = sysctl_fix(name, f"{words[0]} {words[1]} {4 * BUFFER_WANTED}")
            yield Finding("socket-buffers", Severity.INFO, where, problem, fix)
    if number("net.ipv4.tcp_slow_start_after_idle") == 1:
        problem = "net.ipv4.tcp_slow_start_after_idle is 1: the first fetches after a pause are slow"
        fix = sysctl_fix("net.ipv4.tcp_slow_start_after_idle", "0")
        yield Finding("slow-start", Severity.INFO, where, problem, fix)


def memory_checks(where: str, memory: MemoryFacts, kernel: KernelFacts) -> Iterator[Finding]:
    """Memory, swap, limits of the control group."""
    limit = memory.group_limit_bytes
    if memory.total_bytes and memory.available_bytes < memory.total_bytes // 20:
        problem = (
            f"{memory.available_bytes // MIB} of {memory.total_bytes // MIB} MiB of memory are available:"
            " reads come from the disk, and the OOM killer may end a server"
        )
        fix = "ps -eo pid,rss,args --sort=-rss | head  # the largest processes"
        yield Finding("memory", Severity.WARNING, where, problem, fix)
    if memory.swap_used_bytes > MIB * 256:
        problem = f"{memory.swap_used_bytes // MIB} MiB are swapped out: servers stall to read them"
        yield Finding("swap", Severity.WARNING, where, problem, "sudo swapoff -a && sudo swapon -a")
    if 0 < limit < MEMORY_WANTED:
        problem = f"the control group limits memory to {limit // MIB} MiB, the page cache included"
        fix = "systemctl set-property headrace-node.service MemoryMax=4G  # or resources.limits.memory"
        yield Finding("group-memory", Severity.ERROR, where, problem, fix)
    elif limit > 0 and memory.group_used_bytes > limit * 0.95:
        problem = f"the control group uses {memory.group_used_bytes // MIB} of {limit // MIB} MiB"
        fix = f"systemctl set-property headrace-node.service MemoryMax={2 * limit // MIB}M"
        yield Finding("group-memory", Severity.WARNING, where, problem, fix)
    if memory.oom_kills:
        problem = f"the kernel ended {memory.oom_kills} processes of this control group for lack of memory"
        yield Finding(
            "oom-kills", Severity.WARNING, where, problem, "sudo dmesg -T | grep -i 'killed process'"
        )
    if 0 < memory.group_cpus < 1:
        problem = f"the control group limits this process to {memory.group_cpus:g} of {kernel.cpus} CPUs"
        fix = "systemctl set-property headrace-node.service CPUQuota=200%  # or resources.limits.cpu"
        yield Finding("group-cpu", Severity.WARNING, where, problem, fix)


def clock_checks(where: str, clock: ClockFacts) -> Iterator[Finding]:
    """Synchronisation, and the distance to the clock of the doctor's machine."""
    sync = "sudo apt-get install -y chrony && sudo systemctl enable --now chrony"
    if clock.is_synchronised is False:
        problem = "the clock is not synchronised: timestamps, retention and tokens depend on it"
        yield Finding("clock", Severity.WARNING, where, problem, sync)
    elif clock.is_synchronised and clock.max_error_s > MAX_CLOCK_ERROR_S:
        problem = f"the clock may be wrong by {clock.max_error_s:.1f} s"
        yield Finding("clock", Severity.WARNING, where, problem, "sudo chronyc makestep")
    skew = abs(clock.skew_s or 0.0) - clock.skew_error_s
    if clock.skew_s is not None and skew > SKEW_WARNING_S:
        severity = Severity.ERROR if skew > SKEW_ERROR_S else Severity.WARNING
        problem = f"the clock differs by {clock.skew_s:+.3f} s from that of the machine of the doctor"
        yield Finding("clock-skew", severity, where, problem, f"{sync} && sudo chronyc makestep")
    if clock.source in ("jiffies", "hpet", "acpi_pm"):
        problem = f"clock source {clock.source}: reading the clock is slow"
        file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        yield Finding("clock-source", Severity.INFO, where, problem, f"echo tsc | sudo tee {file}")


def _numbers(kernel: KernelFacts) -> Callable[[str], int | None]:
    """Reads a setting as a number, None if it is unknown."""

    def number(name: str) -> int | None:
        text = kernel.sysctls.get(name, "")
        return int(text) if text.isdigit() else None

    return number
