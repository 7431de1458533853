"""Makes the archive of a bundle."""

from __future__ import annotations

import io
import os
import platform
import tarfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ..doctor.doctor_io import DoctorOptions, examine
from ..doctor.facts import machine_from_json
from ..doctor.report import Report, lines
from .cluster_io import add_cluster
from .machine_io import known_secrets, live_answers, machine_files
from .masking import Masker
from .parts import KEEP_HEAD, KEEP_TAIL, MANIFEST, Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..cluster_files_io import ClusterFile

MIB = 1 << 20
MAX_FILE_BYTES = 8 * MIB
STATUS_TIMEOUT_S = 5.0
API_TIMEOUT_MS = 3_000  # a node that is down must not use up the time of the bundle
LOGS = "/logs/"  # in the path of a log


@dataclass(frozen=True)
class BundleOptions:
    """What to collect; `cluster_file` is that of a cluster on Ray, `bootstrap` None for no cluster."""

    path: str
    bootstrap: str | None = None
    client_config: Mapping[str, str] = field(default_factory=dict)
    cluster_file: ClusterFile | None = None
    data_dirs: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    timeout_s: float = 120.0
    max_bytes: int = 128 * MIB


@dataclass
class _Collected:
    """Unmasked, until all secrets are known."""

    files: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)
    report: Report | None = None


def write_bundle(options: BundleOptions, report: Callable[[str], None]) -> dict[str, Any]:
    """Write the archive, mode 0600; returns facts about it. Errors: OSError for the file itself."""
    ends_at_s = time.monotonic() + options.timeout_s
    target = Path(options.path)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            collected = _Collected()
            collected.secrets |= {value for name, value in options.client_config.items() if _is_secret(name)}
            _collect_here(options, collected, report)
            if options.cluster_file is not None:
                _collect_on_ray(options.cluster_file, options, collected, ends_at_s, report)
            parts = Parts(Masker(collected.secrets), options.max_bytes, MAX_FILE_BYTES)
            _add_all(parts, options, collected, ends_at_s, report)
            manifest = parts.manifest(_facts(options))
            _write_archive(stream, target.name.removesuffix(".tar.gz"), {MANIFEST: manifest, **parts.files})
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return {
        "file": str(target),
        "files": len(parts.files),
        "bytes": target.stat().st_size,
        "missing": [f"{each.what}: {each.why}" for each in parts.missing],
    }


def _collect_here(options: BundleOptions, collected: _Collected, report: Callable[[str], None]) -> None:
    """Files, live servers and the doctor of this machine."""
    report("reading files and logs of this machine")
    name = "this-machine" if options.cluster_file is not None else platform.node() or "machine"
    collected.secrets |= known_secrets(options.data_dirs, options.configs)
    own = machine_files(options.data_dirs, options.logs, options.configs, ())
    collected.files |= {f"machines/{name}/{path}": text for path, text in own.items()}
    answers, errors = live_answers(options.data_dirs)
    collected.values |= {f"servers/{server}.json": found for server, found in answers.items()}
    collected.missing |= {f"server {server}": error for server, error in errors.items()}
    report("running the doctor")
    doctor = DoctorOptions(options.data_dirs, (), None)
    collected.report = examine(doctor)


def _collect_on_ray(
    cluster_file: ClusterFile,
    options: BundleOptions,
    collected: _Collected,
    ends_at_s: float,
    report: Callable[[str], None],
) -> None:
    """Status and stacks of all servers, and the files of all machines; all is missing without Ray."""
    from ..ray_host import namespace_of, server_names, statuses_of
    from ..ray_session import joined
    from .collector_actor import collect_machines, server_stacks

    namespace = namespace_of(cluster_file.cluster)
    report("asking the machines of the Ray")
    try:
        with joined(cluster_file.ray_address, namespace, cluster_file.ray_env) as ray:
            statuses = statuses_of(ray, cluster_file)
            running = [name for name, status in statuses.items() if "detail" not in status]
            left_s = max(ends_at_s - time.monotonic(), 1.0)
            stacks = server_stacks(ray, namespace, running, min(STATUS_TIMEOUT_S, left_s))
            machines, errors = collect_machines(ray, [cluster_file.data_dir], left_s)
    except HeadraceError as error:
        collected.missing["ray"] = str(error)
        return
    for name in sorted({*statuses, *server_names(cluster_file)}):
        status = statuses.get(name)
        if status is None or "detail" in status:
            collected.missing[f"server {name}"] = str((status or {}).get("detail", "it does not run"))
            continue
        found = stacks.get(name)
        text = {"error": str(found)} if isinstance(found, BaseException) else found
        collected.values[f"servers/{name}.json"] = {"status": status, "stacks": text}
    collected.missing |= {f"machine {address}": error for address, error in errors.items()}
    facts = []
    for address, (files, secrets, machine) in machines.items():
        collected.files |= {f"machines/{address}/{path}": text for path, text in files.items()}
        collected.secrets |= secrets
        facts.append(machine_from_json({**machine, "address": address}))
    collected.report = Report(facts, silent=errors)


def _add_all(
    parts: Parts,
    options: BundleOptions,
    collected: _Collected,
    ends_at_s: float,
    report: Callable[[str], None],
) -> None:
    """Order: what is small and important comes first, logs share what is left."""
    for what, why in collected.missing.items():
        parts.miss(what, why)
    if collected.report is not None:
        parts.add_json("doctor.json", collected.report.to_json())
        parts.add_text("doctor.txt", "\n".join(lines(collected.report)) + "\n")
    for path, value in collected.values.items():
        parts.add_json(path, value)
    if options.bootstrap is not None:
        report("describing the cluster")
        _add_cluster(parts, options, ends_at_s)
    for path in sorted(collected.files, key=lambda each: (LOGS in each, each)):
        parts.add_text(path, collected.files[path], KEEP_TAIL if LOGS in path else KEEP_HEAD)


def _add_cluster(parts: Parts, options: BundleOptions, ends_at_s: float) -> None:
    from ...clients.sync.admin_io import Admin

    try:
        config = {**options.client_config, "default.api.timeout.ms": str(API_TIMEOUT_MS)}
        with Admin(options.bootstrap, config=config) as admin:
            add_cluster(parts, admin, ends_at_s)
    except (HeadraceError, OSError, TimeoutError) as error:
        parts.miss("cluster", f"{type(error).__name__}: {error}")


def _facts(options: BundleOptions) -> dict[str, Any]:
    libraries = {name: version(name) for name in ("headrace", "ray", "pyzmq", "msgspec")}
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "versions": {"python": platform.python_version(), **libraries},
        "cluster": options.cluster_file.cluster if options.cluster_file else None,
        "data_dirs": list(options.data_dirs),
    }


def _write_archive(stream: Any, root: str, files: Mapping[str, bytes]) -> None:
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(f"{root}/{path}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))


def _is_secret(name: str) -> bool:
    return any(word in name for word in ("password", "secret", "token", "key", "jaas"))
