"""Checks of data dirs: file system, options, space, speed of fsync. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from .findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .facts import DiskFacts, MachineFacts

GIB = 1 << 30
NETWORK_KINDS = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs", "afs")
)
MEMORY_KINDS = frozenset(("tmpfs", "ramfs", "devtmpfs"))
LAYERED_KINDS = frozenset(("overlay", "aufs", "fuse.fuse-overlayfs"))
USUAL_KINDS = frozenset(("ext4", "xfs", "btrfs", "zfs", "ext3", "f2fs"))
# Mount options with which a synced record can be lost, or a sync never reaches the disk.
UNSAFE_OPTIONS = {
    "nobarrier": "writes are reordered",
    "barrier=0": "writes are reordered",
    "data=writeback": "after a crash, files have old blocks of the disk",
    "eatmydata": "fsync does nothing",
}
# Virtual disks call themselves rotating: only the measured time shows it.
ROTATION_MS = 5.0
SLOW_FSYNC_MS, UNUSABLE_FSYNC_MS = 20.0, 250.0
FREE_WARNING, FREE_ERROR = 1 / 3, 0.05
MIN_FREE_INODES = 100_000


def check_disks(machine: MachineFacts) -> Iterator[Finding]:
    """All checks of the data dirs of a machine."""
    for disk in machine.disks:
        yield from disk_checks(machine.name, disk)
    yield from shared_disks(machine)


def disk_checks(where: str, disk: DiskFacts) -> Iterator[Finding]:
    """One data dir."""
    path = shlex.quote(disk.path)
    if disk.trouble:
        fix = f"sudo mkdir -p {path} && sudo chown $USER {path}"
        if "ro" in disk.options:
            fix = f"sudo mount -o remount,rw {shlex.quote(disk.mount_point)}"
        yield Finding("disk-writable", Severity.ERROR, where, f"{disk.path}: {disk.trouble}", fix)
    yield from _file_system(where, disk)
    yield from _options(where, disk)
    yield from _space(where, disk)
    yield from _speed(where, disk)


def shared_disks(machine: MachineFacts) -> Iterator[Finding]:
    """Data dirs of one machine on one device share its bandwidth and its failures."""
    by_device = defaultdict[str, set[str]](set)
    for disk in machine.disks:
        by_device[disk.device].add(disk.path)
    for device, paths in sorted(by_device.items()):
        if device and len(paths) > 1:
            problem = f"{', '.join(sorted(paths))} are on one device, {device}: they fail together"
            fix = "headrace node list  # replicas on one machine: use one storage node per disk, or a RAID"
            yield Finding("shared-disk", Severity.INFO, machine.name, problem, fix)


def _file_system(where: str, disk: DiskFacts) -> Iterator[Finding]:
    format_fix = f"sudo mkfs.xfs /dev/DISK && sudo mount -o noatime /dev/DISK {shlex.quote(disk.path)}"
    if disk.kind in MEMORY_KINDS:
        problem = f"{disk.path} is on {disk.kind}, which is memory: a restart loses all records"
        yield Finding("file-system", Severity.ERROR, where, problem, format_fix)
    elif disk.kind in NETWORK_KINDS:
        problem = (
            f"{disk.path} is on the network file system {disk.kind}: locks and fsync are unreliable there"
        )
        yield Finding("file-system", Severity.ERROR, where, problem, format_fix)
    elif disk.kind in LAYERED_KINDS:
        problem = f"{disk.path} is in the {disk.kind} layer of a container, and ends with it"
        fix = "docker run --mount type=volume,source=headrace,target=/var/lib/headrace  # or a volume claim"
        yield Finding("file-system", Severity.ERROR, where, problem, fix)
    elif disk.kind and disk.kind not in USUAL_KINDS:
        problem = f"{disk.path} is on {disk.kind}, on which headrace is not tested"
        yield Finding("file-system", Severity.WARNING, where, problem, format_fix)


def _options(where: str, disk: DiskFacts) -> Iterator[Finding]:
    mount = shlex.quote(disk.mount_point)
    for option in disk.options:
        if option in UNSAFE_OPTIONS:
            problem = f"{disk.mount_point} is mounted with {option}: {UNSAFE_OPTIONS[option]}"
            fix = f"sudo sed -i 's/,\\?{option}//' /etc/fstab && sudo mount -o remount {mount}"
            yield Finding("mount-options", Severity.ERROR, where, problem, fix)
    if "strictatime" in disk.options or "sync" in disk.options:
        which = "strictatime" if "strictatime" in disk.options else "sync"
        problem = f"{disk.mount_point} is mounted with {which}: every read or write costs a write more"
        fix = f"sudo mount -o remount,noatime,async {mount}"
        yield Finding("mount-options", Severity.WARNING, where, problem, fix)


def _space(where: str, disk: DiskFacts) -> Iterator[Finding]:
    if disk.total_bytes:
        share = disk.free_bytes / disk.total_bytes
        if share < FREE_WARNING:
            severity = Severity.ERROR if share < FREE_ERROR else Severity.WARNING
            problem = (
                f"{disk.path}: {disk.free_bytes / GIB:.1f} of {disk.total_bytes / GIB:.1f} GiB are free"
                f" ({share:.0%}); a full disk rejects records"
            )
            fix = "headrace log dirs  # sizes; headrace config alter --topic NAME --set retention.bytes=N"
            yield Finding("disk-space", severity, where, problem, fix)
    if disk.inodes and disk.free_inodes < min(MIN_FREE_INODES, disk.inodes // 10):
        problem = f"{disk.path}: {disk.free_inodes} inodes are free; each segment needs three"
        yield Finding("inodes", Severity.ERROR, where, problem, f"df -i {shlex.quote(disk.mount_point)}")


def _speed(where: str, disk: DiskFacts) -> Iterator[Finding]:
    if disk.fsync_ms:
        middle, worst = median(disk.fsync_ms), max(disk.fsync_ms)
        if middle > SLOW_FSYNC_MS or worst > UNUSABLE_FSYNC_MS:
            severity = Severity.ERROR if middle > UNUSABLE_FSYNC_MS else Severity.WARNING
            problem = (
                f"{disk.path}: a write with fsync takes {middle:.1f} ms (longest {worst:.1f} ms): every"
                " decision of a controller and every durable append waits for it"
            )
            fix = "iostat -x 1 5  # the other writers of the disk; move metadata.log.dir to another disk"
            yield Finding("fsync", severity, where, problem, fix)
    device = disk.device.rpartition("/")[2]
    if disk.write_cache == "write through" and disk.is_rotational:
        problem = f"the write cache of {disk.device} is off: a rotating disk then writes slowly"
        fix = f"sudo hdparm -W1 {shlex.quote(disk.device)}  # only if the disk honours flushes"
        yield Finding("write-cache", Severity.INFO, where, problem, fix)
    is_slow = bool(disk.fsync_ms) and median(disk.fsync_ms) > ROTATION_MS
    if disk.is_rotational and disk.write_cache != "write through" and is_slow:
        problem = f"{disk.device} is a rotating disk: each fsync costs a rotation"
        yield Finding(
            "rotating-disk", Severity.INFO, where, problem, f"lsblk -d -o NAME,ROTA,MODEL /dev/{device}"
        )
