"""What the doctor knows about a machine and a cluster. JSON-able: machines send it through Ray."""

from __future__ import annotations

from typing import Any

import msgspec

UNLIMITED = -1


class LimitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of a process of this machine; UNLIMITED for none. Memory in bytes."""

    open_files: int = UNLIMITED
    open_files_hard: int = UNLIMITED
    locked_memory: int = UNLIMITED
    processes: int = UNLIMITED
    core_size: int = UNLIMITED


class DiskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The file system below a data dir. `fsync_ms` are the measured times of one write with fdatasync;
    `trouble` is why nothing could be written."""

    path: str
    mount_point: str = "/"
    device: str = ""
    kind: str = ""
    options: tuple[str, ...] = ()
    total_bytes: int = 0
    free_bytes: int = 0
    inodes: int = 0
    free_inodes: int = 0
    write_cache: str = ""
    is_rotational: bool | None = None
    fsync_ms: tuple[float, ...] = ()
    trouble: str = ""


class ClockFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel knows about its clock. `skew_s` is the distance to the clock of the machine that runs
    the doctor, `skew_error_s` half of the round trip in which it was measured."""

    is_synchronised: bool | None = None
    max_error_s: float = 0.0
    source: str = ""
    skew_s: float | None = None
    skew_error_s: float = 0.0


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the machine and of the control group of the process; 0 in a limit for none."""

    total_bytes: int = 0
    available_bytes: int = 0
    swap_total_bytes: int = 0
    swap_used_bytes: int = 0
    group_limit_bytes: int = 0
    group_used_bytes: int = 0
    group_cpus: float = 0.0
    oom_kills: int = 0


class KernelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the kernel: those of sysctl by dotted name, and those of /sys."""

    release: str = ""
    sysctls: dict[str, str] = {}
    huge_pages: str = ""
    governors: tuple[str, ...] = ()
    cpus: int = 1


class VersionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Versions by name of the distribution; `compiled` and `interpreted` are the numbers of hot modules."""

    python: str = ""
    headrace: str = ""
    libraries: dict[str, str] = {}
    libzmq: str = ""
    has_curve: bool = True
    codec: str = "compiled"
    compiled: int = 0
    interpreted: int = 0
    java: str = ""


class PortFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A port that a server of this machine listens on, or will: `state` is free, headrace (a process of
    headrace or Ray has it), taken or unusable."""

    host: str
    port: int
    state: str
    owner: str = ""
    detail: str = ""


class ReachFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a connection from this machine to an address was accepted; `error` is empty if so."""

    address: str
    error: str = ""
    ms: float = 0.0


class SecretFileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a key or a password, and its permission bits."""

    path: str
    mode: int


class CertificateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of a file, and the time until it expires."""

    path: str
    subject: str
    days_left: float


class RayFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The Ray of this machine: niceness of its workers, storage of its GCS (empty: in memory; None: the GCS
    is on another machine)."""

    niceness: int | None = None
    gcs_storage: str | None = None
    auth_mode: str = ""


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one machine."""

    name: str
    address: str = ""
    limits: LimitFacts = LimitFacts()
    disks: tuple[DiskFacts, ...] = ()
    clock: ClockFacts = ClockFacts()
    memory: MemoryFacts = MemoryFacts()
    kernel: KernelFacts = KernelFacts()
    versions: VersionFacts = VersionFacts()
    ports: tuple[PortFacts, ...] = ()
    reach: tuple[ReachFacts, ...] = ()
    secrets: tuple[SecretFileFacts, ...] = ()
    certificates: tuple[CertificateFacts, ...] = ()
    ray: RayFacts | None = None


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One topic: replication factor, min.insync.replicas, and numbers of partitions by state."""

    topic: str
    partitions: int
    replication_factor: int
    min_in_sync: int
    under_replicated: int = 0
    below_min: int = 0
    offline: int = 0
    is_internal: bool = False


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """State of the cluster as its nodes report it. `voters_behind` are controllers that have not fetched
    within seconds; `listeners` are advertised addresses by node."""

    cluster_id: str = ""
    nodes: dict[int, str] = {}
    fenced: tuple[int, ...] = ()
    shutting_down: tuple[int, ...] = ()
    leader_id: int = -1
    voters: tuple[int, ...] = ()
    voters_behind: tuple[int, ...] = ()
    topics: tuple[ReplicaFacts, ...] = ()
    offline_dirs: tuple[str, ...] = ()
    full_dirs: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


class AdvertisedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An address that a server gives to clients, and the addresses to which its host resolves."""

    server: str
    listener: str
    address: str
    resolved: tuple[str, ...] = ()
    error: str = ""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: the address of its machine, and the version of headrace that its process loaded."""

    name: str
    address: str
    version: str


def to_json(facts: msgspec.Struct) -> dict[str, Any]:
    """The facts as built-in types."""
    found: dict[str, Any] = msgspec.to_builtins(facts)
    return found


def machine_from_json(found: Any) -> MachineFacts:
    """The facts of `to_json`. Errors: msgspec.ValidationError."""
    return msgspec.convert(found, MachineFacts)
