"""Every check of `headrace doctor` finds its planted problem, and nothing on a sound machine."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import parse_command
from headrace.services.doctor.config_facts import BASE, ConfigFacts, ListenerFacts, MistakeFacts
from headrace.services.doctor.facts import (
    AdvertisedFacts,
    CertificateFacts,
    ClockFacts,
    ClusterFacts,
    DiskFacts,
    KernelFacts,
    LimitFacts,
    MachineFacts,
    MemoryFacts,
    PortFacts,
    RayFacts,
    ReachFacts,
    ReplicaFacts,
    SecretFileFacts,
    ServerFacts,
    VersionFacts,
    machine_from_json,
    to_json,
)
from headrace.services.doctor.findings import Finding, Severity
from headrace.services.doctor.report import Report, counts, lines

SOURCES = Path(__file__).parents[4] / "services" / "doctor"
GIB = 1 << 30
DISK = DiskFacts(
    path="/data/a",
    mount_point="/data",
    device="/dev/sdb",
    kind="xfs",
    options=("rw", "noatime"),
    total_bytes=100 * GIB,
    free_bytes=80 * GIB,
    inodes=10_000_000,
    free_inodes=9_000_000,
    write_cache="write back",
    is_rotational=False,
    fsync_ms=(0.5, 0.6, 0.7),
)
KERNEL = KernelFacts(
    sysctls={
        "vm.max_map_count": "65530",
        "vm.swappiness": "1",
        "vm.dirty_ratio": "20",
        "vm.dirty_background_ratio": "10",
        "vm.overcommit_memory": "0",
        "net.core.somaxconn": "4096",
        "net.ipv4.tcp_max_syn_backlog": "4096",
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.tcp_slow_start_after_idle": "0",
        "net.ipv4.ip_local_port_range": "32768 60999",
        "net.ipv4.ip_local_reserved_ports": "40000-40002,50000",
    },
    huge_pages="madvise",
    governors=("performance",),
    cpus=8,
)
SOUND = MachineFacts(
    name="a",
    limits=LimitFacts(open_files=1_048_576, locked_memory=8 << 20, processes=65_536),
    disks=(DISK,),
    clock=ClockFacts(is_synchronised=True, max_error_s=0.01, source="tsc", skew_s=0.001),
    memory=MemoryFacts(total_bytes=64 * GIB, available_bytes=50 * GIB),
    kernel=KERNEL,
    versions=VersionFacts(
        python="3.11.7", headrace="0.1.0", libraries={"ray": "2.60.0"}, libzmq="4.3.5", compiled=80
    ),
    ports=(
        PortFacts(host="", port=9092, state="free"),
        PortFacts(host="", port=40001, state="headrace", owner="ray::NodeActor"),
    ),
    reach=(ReachFacts(address="b:9092"),),
    secrets=(SecretFileFacts(path="/data/security/ca.key", mode=0o600),),
    certificates=(CertificateFacts(path="/data/security/server.pem", subject="CN=a", days_left=400),),
    ray=RayFacts(niceness=0, gcs_storage="rocksdb", auth_mode="token"),
)
TOPIC = ReplicaFacts(topic="orders", partitions=3, replication_factor=3, min_in_sync=2)
CLUSTER = ClusterFacts(nodes={1: "a:1", 2: "b:1", 3: "c:1"}, leader_id=1, voters=(1, 2, 3), topics=(TOPIC,))


def disk(**changes: Any) -> dict[str, Any]:
    return {"disks": (msgspec.structs.replace(DISK, **changes),)}


def kernel(**sysctls: str) -> dict[str, Any]:
    dotted = {name.replace("__", "."): value for name, value in sysctls.items()}
    return {"kernel": msgspec.structs.replace(KERNEL, sysctls={**KERNEL.sysctls, **dotted})}


def versions(**changes: Any) -> dict[str, Any]:
    return {"versions": msgspec.structs.replace(SOUND.versions, **changes)}


def topic(**changes: Any) -> ClusterFacts:
    return msgspec.structs.replace(CLUSTER, topics=(msgspec.structs.replace(TOPIC, **changes),))


def group(limit: int, used: int = 0) -> dict[str, Any]:
    return {"memory": msgspec.structs.replace(SOUND.memory, group_limit_bytes=limit, group_used_bytes=used)}


E, W, N = Severity.ERROR, Severity.WARNING, Severity.INFO
MACHINE: list[tuple[str, Severity, dict[str, Any]]] = [
    ("open-files", E, {"limits": LimitFacts(open_files=1024)}),
    ("open-files", W, {"limits": LimitFacts(open_files=65_536)}),
    ("processes", W, {"limits": LimitFacts(processes=512)}),
    ("locked-memory", N, {"limits": LimitFacts(locked_memory=0)}),
    ("max-map-count", W, kernel(vm__max_map_count="1000")),
    ("swappiness", W, kernel(vm__swappiness="60")),
    ("overcommit", W, kernel(vm__overcommit_memory="2")),
    ("dirty-pages", W, kernel(vm__dirty_ratio="80")),
    ("dirty-pages", W, kernel(vm__dirty_background_ratio="50")),
    ("huge-pages", W, {"kernel": msgspec.structs.replace(KERNEL, huge_pages="always")}),
    ("cpu-governor", W, {"kernel": msgspec.structs.replace(KERNEL, governors=("performance", "powersave"))}),
    ("connection-backlog", W, kernel(net__core__somaxconn="128")),
    ("socket-buffers", N, kernel(net__ipv4__tcp_rmem="4096 87380 131072")),
    ("slow-start", N, kernel(net__ipv4__tcp_slow_start_after_idle="1")),
    ("memory", W, {"memory": MemoryFacts(total_bytes=64 * GIB, available_bytes=GIB)}),
    ("swap", W, {"memory": MemoryFacts(swap_total_bytes=8 * GIB, swap_used_bytes=GIB)}),
    ("group-memory", E, group(512 << 20)),
    ("group-memory", W, group(4 * GIB, 4 * GIB - 1)),
    ("oom-kills", W, {"memory": MemoryFacts(oom_kills=2)}),
    ("group-cpu", W, {"memory": MemoryFacts(group_cpus=0.5)}),
    ("clock", W, {"clock": ClockFacts(is_synchronised=False)}),
    ("clock", W, {"clock": ClockFacts(is_synchronised=True, max_error_s=16.0)}),
    ("clock-skew", W, {"clock": ClockFacts(skew_s=-0.5, skew_error_s=0.01)}),
    ("clock-skew", E, {"clock": ClockFacts(skew_s=30.0, skew_error_s=0.01)}),
    ("clock-source", N, {"clock": ClockFacts(source="hpet")}),
    ("disk-writable", E, disk(trouble="not writable: Read-only file system", options=("ro",))),
    ("file-system", E, disk(kind="tmpfs")),
    ("file-system", E, disk(kind="nfs4")),
    ("file-system", E, disk(kind="overlay")),
    ("file-system", W, disk(kind="vfat")),
    ("mount-options", E, disk(options=("rw", "nobarrier"))),
    ("mount-options", W, disk(options=("rw", "sync"))),
    ("disk-space", W, disk(free_bytes=20 * GIB)),
    ("disk-space", E, disk(free_bytes=GIB)),
    ("inodes", E, disk(free_inodes=10)),
    ("fsync", W, disk(fsync_ms=(30.0, 40.0, 35.0))),
    ("fsync", W, disk(fsync_ms=(1.0, 1.0, 400.0))),
    ("fsync", E, disk(fsync_ms=(300.0, 300.0, 300.0))),
    ("write-cache", N, disk(write_cache="write through", is_rotational=True)),
    ("rotating-disk", N, disk(is_rotational=True, fsync_ms=(9.0, 10.0, 11.0))),
    ("shared-disk", N, {"disks": (DISK, msgspec.structs.replace(DISK, path="/data/b"))}),
    ("port", E, {"ports": (PortFacts(host="", port=9092, state="taken", owner="nginx"),)}),
    ("port", E, {"ports": (PortFacts(host="h", port=80, state="unusable", detail="Permission denied"),)}),
    ("ephemeral-port", N, {"ports": (PortFacts(host="", port=40003, state="free"),)}),
    ("reachable", E, {"reach": (ReachFacts(address="b:9092", error="Connection refused"),)}),
    ("python", E, versions(python="3.10.2")),
    ("codec", W, versions(codec="python")),
    ("compiled-modules", N, versions(interpreted=3)),
    ("libzmq", W, versions(has_curve=False)),
    ("java", W, versions(libraries={"ray": "2.60.0", "pyspark": "4.2"})),
    ("ray-niceness", W, {"ray": RayFacts(niceness=15)}),
    ("secret-mode", E, {"secrets": (SecretFileFacts(path="/k", mode=0o644),)}),
    ("certificate", W, {"certificates": (CertificateFacts(path="/c", subject="", days_left=20),)}),
    ("certificate", E, {"certificates": (CertificateFacts(path="/c", subject="CN=a", days_left=-1),)}),
]
# Of two machines; the changes are those of the second one.
PAIR: list[tuple[str, Severity, dict[str, Any]]] = [
    ("versions", E, versions(python="3.12.1")),
    ("versions", W, versions(headrace="0.2.0")),
    ("versions", E, versions(libraries={"ray": "2.61.0"})),
    ("ray-head", W, {"ray": RayFacts(gcs_storage="")}),
    ("ray-token", W, {"ray": RayFacts(auth_mode="disabled")}),
]
WHOLE: list[tuple[str, Severity, ClusterFacts]] = [
    ("cluster", W, msgspec.structs.replace(CLUSTER, troubles=("topics: timeout",))),
    ("fenced", E, msgspec.structs.replace(CLUSTER, fenced=(2,))),
    ("drained", N, msgspec.structs.replace(CLUSTER, shutting_down=(2,))),
    ("log-dir", E, msgspec.structs.replace(CLUSTER, offline_dirs=("/data of node 2",))),
    ("log-dir", E, msgspec.structs.replace(CLUSTER, full_dirs=("/data of node 2: full",))),
    ("quorum", E, msgspec.structs.replace(CLUSTER, leader_id=-1)),
    ("quorum", W, msgspec.structs.replace(CLUSTER, voters_behind=(2,))),
    ("quorum", E, msgspec.structs.replace(CLUSTER, voters_behind=(2, 3))),
    ("quorum", W, msgspec.structs.replace(CLUSTER, voters=(1, 2, 3, 4, 5), voters_behind=(2,))),
    ("controllers", W, msgspec.structs.replace(CLUSTER, voters=(1,))),
    ("controllers", N, msgspec.structs.replace(CLUSTER, voters=(1, 2, 3, 4))),
    ("offline", E, topic(offline=1, below_min=1)),
    ("below-min-isr", E, topic(below_min=1)),
    ("under-replicated", W, topic(under_replicated=2)),
    ("one-replica", W, topic(replication_factor=1, min_in_sync=1)),
    ("min-isr-equals-replicas", W, topic(replication_factor=2, min_in_sync=3)),
    ("min-isr-equals-replicas", W, topic(min_in_sync=3)),
    ("min-isr-one", N, topic(min_in_sync=1)),
]
ADVERTISED = [
    AdvertisedFacts(server="node-1", listener="PLAINTEXT", address="nowhere:9092", error="Name not known"),
    AdvertisedFacts(
        server="node-1", listener="PLAINTEXT", address="localhost:9092", resolved=("127.0.0.1", "::1")
    ),
]
CONFIG = ConfigFacts(
    path="/etc/headrace/node 1.properties",
    role="node",
    name="node-1",
    server_id=1,
    data_dirs=("/data/a",),
    listeners=(ListenerFacts(key="listeners", host="", port=9092),),
    hosts={"node-1.example.com": ""},
    controllers=("c1:9090", "c2:9090"),
    memory_bytes={BASE: 128 << 20, "queued.max.request.bytes": 256 << 20},
    replication={"offsets.topic.replication.factor": 3, "transaction.state.log.replication.factor": 3,
                 "transaction.state.log.min.isr": 2},
    owners={"/data/a": 1},
    reach=(ReachFacts(address="c1:9090"), ReachFacts(address="c2:9090")),
    secrets=(SecretFileFacts(path="/etc/headrace/node.pem", mode=0o600),),
    certificates=(CertificateFacts(path="/etc/headrace/node.pem", subject="", days_left=100),),
)  # fmt: skip
OTHER = msgspec.structs.replace(
    CONFIG,
    path="/etc/headrace/node-2.properties",
    server_id=2,
    data_dirs=("/data/b",),
    owners={},
    listeners=(ListenerFacts(key="listener.port", host="h", port=9093),),
)
REFUSED = ReachFacts(address="c1:9090", error="Connection refused")
# One config file; the changes of it.
CONFIGS: list[tuple[str, Severity, dict[str, Any]]] = [
    ("config", E, {"mistakes": (MistakeFacts(kind="key", key="x", problem="unknown key x", fix="f"),)}),
    ("config", W, {"mistakes": (MistakeFacts(kind="twice", key="x", problem="x is on lines", fix="f"),)}),
    ("advertised-host", E, {"hosts": {"node-1.example.com": "Name or service not known"}}),
    ("advertised-host", E, {"hosts": {"127.0.0.1": ""}}),
    ("controller", W, {"reach": (REFUSED,)}),
    ("controller", N, {"reach": (REFUSED, ReachFacts(address="c2:9090"))}),
    ("controller", N, {"role": "controller", "reach": (REFUSED,)}),
    ("keys", E, {"key_faults": ("listener SSL: the key store cannot be used: WRONG_PASSWORD",)}),
    ("secret-mode", E, {"secrets": (SecretFileFacts(path="/etc/headrace/node.pem", mode=0o644),)}),
    ("certificate", W, {"certificates": (CertificateFacts(path="/c", subject="", days_left=20),)}),
    ("data-dir-owner", E, {"owners": {"/data/a": 2}}),
    ("replication-factor", E, {"replication": {"offsets.topic.replication.factor": 4}}),
    ("min-isr", W, {"replication": {"default.replication.factor": 3, "min.insync.replicas": 3}}),
    ("port-of-server", E, {"listeners": (ListenerFacts(key="listener.port", host="", port=40001),)}),
    ("memory-budget", W, {"memory_bytes": {BASE: GIB, "queued.max.request.bytes": 60 * GIB}}),
    ("memory-budget", E, {"memory_bytes": {BASE: GIB, "queued.max.request.bytes": 64 * GIB}}),
]
# A second config file of the machine; the changes of it.
SECOND: list[tuple[str, Severity, dict[str, Any]]] = [
    ("port-twice", E, {"listeners": (ListenerFacts(key="listener.port", host="h", port=9092),)}),
    ("data-dir-twice", E, {"data_dirs": ("/data/a",)}),
    ("server-id", E, {"server_id": 1}),
]


def changed(**changes: Any) -> MachineFacts:
    return msgspec.structs.replace(SOUND, **changes)


def reports() -> list[tuple[str, Severity, Report]]:
    """Every planted problem, alone in its report."""
    twin = changed(name="b")
    found = [(check, severity, Report([changed(**changes)])) for check, severity, changes in MACHINE]
    found += [
        (check, severity, Report([SOUND, msgspec.structs.replace(twin, **changes)]))
        for check, severity, changes in PAIR
    ]
    found += [(check, severity, Report([SOUND], cluster)) for check, severity, cluster in WHOLE]
    found += [("advertised", E, Report([SOUND, twin], advertised=[each])) for each in ADVERTISED]
    old = ServerFacts(name="node-1", address="10.0.0.1", version="0.0.9")
    found.append(("old-process", W, Report([changed(address="10.0.0.1")], servers=[old])))
    for check, severity, changes in CONFIGS:
        config = msgspec.structs.replace(CONFIG, **changes)
        found.append((check, severity, Report([SOUND], configs=[config], nodes=3)))
    for check, severity, changes in SECOND:
        config = msgspec.structs.replace(OTHER, **changes)
        found.append((check, severity, Report([SOUND], configs=[CONFIG, config], nodes=3)))
    found.append(("machine", E, Report([SOUND], silent={"10.0.0.2": "ModuleNotFoundError"})))
    found.append(("cluster", E, Report([SOUND], unreachable="timeout")))
    return found


def test_sound_machines_and_cluster_have_no_finding() -> None:
    """Nor do loopback addresses of a cluster on one machine."""
    assert Report([SOUND, changed(name="b")], CLUSTER).findings() == []
    assert Report([SOUND], CLUSTER, ADVERTISED[1:]).findings() == []
    assert Report([MachineFacts(name="unknown")]).findings() == []
    assert Report([SOUND], CLUSTER, configs=[CONFIG, OTHER]).findings() == []
    on_one_machine = msgspec.structs.replace(CONFIG, hosts={"127.0.0.1": ""}, controllers=("localhost:9090",))
    assert Report([SOUND], configs=[on_one_machine]).findings() == []
    running = msgspec.structs.replace(
        CONFIG, is_running=True, listeners=(ListenerFacts(key="listener.port", host="", port=40001),)
    )
    assert Report([SOUND], configs=[running]).findings() == []


def test_nodes_of_the_cluster_limit_replication_factors() -> None:
    """Those of a running cluster, unless the number that it will have is given; without both, nothing."""
    config = msgspec.structs.replace(CONFIG, replication={"offsets.topic.replication.factor": 4})
    for cluster, nodes, expected in ((CLUSTER, None, 1), (CLUSTER, 4, 0), (None, 3, 1), (None, None, 0)):
        assert len(Report([SOUND], cluster, configs=[config], nodes=nodes).findings()) == expected


@pytest.mark.parametrize(("check", "severity", "report"), reports())
def test_planted_problem_is_the_only_finding(check: str, severity: Severity, report: Report) -> None:
    """With its severity, a problem and a command."""
    (found,) = report.findings()
    assert (found.check, found.severity) == (check, severity)
    assert found.problem
    assert found.fix
    assert report.to_json()["ok"] == (severity is not E)


def test_every_check_has_a_planted_problem() -> None:
    """The names of checks in the sources are those of the tables."""
    written = {
        name
        for path in SOURCES.glob("*.py")
        for name in re.findall(r"(?:Finding|_of)\(\s*\"([a-z-]+)\"", path.read_text())
    }
    table = re.findall(
        r"^            \"([a-z-]+)\",\n            Severity",
        (SOURCES / "cluster_checks.py").read_text(),
        re.M,
    )
    assert len(written) > 40
    assert written | set(table) == {check for check, _, _ in reports()}


def headrace_commands(finding: Finding) -> list[list[str]]:
    words = shlex.split(finding.fix, comments=True)
    commands: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", ";"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command[1:] for command in commands if command[:1] == ["headrace"]]


@pytest.mark.parametrize(("check", "severity", "report"), reports())
def test_commands_of_headrace_in_fixes_exist(check: str, severity: Severity, report: Report) -> None:
    """Commands and options; every fix is words for a shell."""
    for words in headrace_commands(report.findings()[0]):
        if "--help" not in words:
            parse_command(shlex.join(["headrace", *words]))


def test_worst_findings_come_first_and_exit_is_counted() -> None:
    """Two machines with several problems: order by severity; the text has each command once."""
    worse = changed(name="b", limits=LimitFacts(open_files=1024, locked_memory=0))
    report = Report([worse, changed(**kernel(vm__swappiness="60"))])
    findings = report.findings()
    assert [each.severity for each in findings] == [E, W, N]
    assert counts(findings) == {"error": 1, "warning": 1, "info": 1}
    text = "\n".join(lines(report))
    assert text.count("fix: ") == 3
    assert text.endswith("1 errors, 1 warnings, 1 notes")


def test_machine_facts_survive_the_way_through_json() -> None:
    """As they travel from the machines of a Ray."""
    assert machine_from_json(msgspec.json.decode(msgspec.json.encode(to_json(SOUND)))) == SOUND
