"""Collects the part of a bundle that is on one machine: files of servers, logs, figures of the kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from ...protocol.errors import HeadraceError
from ...runtime.files.files_io import OsFiles
from ...storage_node.log.dump_folders import dump_path
from ..cluster_files_io import home_dir
from ..metadata_files_io import log_rows, read_image, shown_keys
from ..metadata_tree import Leaf, tree_of, walk
from ..server.control_io import FILE as CONTROL_SOCKET
from ..server.control_io import ask
from .masking import secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SMALL_FILES = ("meta.properties", "quorum-state", "listener.port", "leader-epoch-checkpoint")
SMALL_ENDINGS = ("-checkpoint", ".properties", ".port")
METADATA_FOLDER = "__cluster_metadata-0"
MAX_SMALL, MAX_LOG, MAX_METADATA = 256 << 10, 2 << 20, 8 << 20
MAX_LOGS, MAX_LISTED = 40, 50_000
JOURNAL_LINES, COMMAND_TIMEOUT_S = "20000", 15.0
PROC = (
    "loadavg", "meminfo", "vmstat", "mounts", "diskstats", "cmdline", "version", "net/snmp", "net/netstat",
    "net/sockstat", "pressure/cpu", "pressure/io", "pressure/memory", "self/limits", "self/cgroup", "cpuinfo",
)  # fmt: skip
_RAY_LOGS = ("gcs_server", "raylet", "monitor", "worker-", "ray-start", "log_monitor", "agent")
_SECRET_FILES = (".key", ".secret", ".ray_token", "auth_token", ".keys", ".properties", ".pem", ".token")


def machine_files(
    data_dirs: Iterable[str], logs: Iterable[str], configs: Iterable[str], log_folders: Iterable[str]
) -> dict[str, str]:
    """Texts by path in the bundle. Unmasked: the caller masks them with all known secrets."""
    found = dict[str, str]()
    for data_dir in dict.fromkeys(data_dirs):
        _put(found, _server_files(Path(data_dir)))
    for config in dict.fromkeys(configs):
        _put(found, [(f"configs/{Path(config).name}", _text(Path(config), MAX_SMALL))])
    for log in dict.fromkeys(logs):
        _put(found, [(f"logs/{Path(log).name}", _tail(Path(log)))])
    for folder in dict.fromkeys(log_folders):
        _put(found, _ray_logs(Path(folder)))
    found["kernel/processes.txt"] = _processes()
    for name in PROC:
        if text := _text(Path("/proc", name), MAX_SMALL):
            found[f"kernel/{name.replace('/', '-')}.txt"] = text
    for name, command in (("journal", _journal()), ("sockets", ["ss", "-s"]), ("disks", ["df", "-hT"])):
        if command and (text := _output(command)):
            found[f"{'logs' if name == 'journal' else 'kernel'}/{name}.txt"] = text
    found["environment.txt"] = _environment()
    return found


def known_secrets(data_dirs: Iterable[str], configs: Iterable[str]) -> set[str]:
    """Values of secrets in the files of the cluster on this machine, to be masked wherever they occur."""
    folders = [Path(data_dir) / "security" for data_dir in data_dirs]
    folders += [home_dir() / "clusters", Path("~/.ray").expanduser()]
    found = set[str]()
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    for path in [*paths, *map(Path, configs)]:
        if path.is_file() and (path.name.endswith(_SECRET_FILES) or str(path) in configs):
            found |= secrets_of(_text(path, MAX_SMALL))
    variables = "\n".join(f"{name}={value}" for name, value in os.environ.items())
    return found | secrets_of(variables + "\n-")


def live_answers(data_dirs: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Status and stacks of server processes without Ray, by their folder; and errors of those that do not
    answer."""
    found, errors = dict[str, Any](), dict[str, str]()
    for socket in _control_sockets(data_dirs):
        folder = socket.parent
        try:
            found[folder.name] = {
                "status": ask(str(folder), "status"),
                "stacks": ask(str(folder), "stacks"),
            }
        except (HeadraceError, OSError, ValueError) as error:
            errors[folder.name] = str(error)
    return found, errors


def _control_sockets(data_dirs: Iterable[str]) -> list[Path]:
    folders = [Path(data_dir) for data_dir in data_dirs]
    return sorted(
        {
            path
            for folder in folders
            for path in (folder / CONTROL_SOCKET, *folder.glob(f"*/{CONTROL_SOCKET}"))
            if path.exists()
        }
    )


def _server_files(data_dir: Path) -> Iterator[tuple[str, str]]:
    """Small files of each server, a listing of all of its files, and the metadata log of controllers."""
    servers = (
        [data_dir]
        if (data_dir / "meta.properties").exists()
        else sorted(path.parent for path in data_dir.glob("*/meta.properties"))
    )
    for server in servers:
        name = server.name
        yield f"servers/{name}/files.jsonl", "\n".join(_listing(server)) + "\n"
        for folder in (server, server / METADATA_FOLDER):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.is_file() and (path.name in SMALL_FILES or path.name.endswith(SMALL_ENDINGS)):
                    yield f"servers/{name}/{path.relative_to(server)}", _text(path, MAX_SMALL)
        if (server / METADATA_FOLDER).is_dir():
            yield f"servers/{name}/metadata.jsonl", _metadata(server / METADATA_FOLDER)


def _listing(server: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(server):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            try:
                facts = os.stat(path, follow_symlinks=False)
            except OSError:
                continue  # deleted meanwhile
            entry = {"path": os.path.relpath(path, server), "bytes": facts.st_size, "mtime": facts.st_mtime}
            yield json.dumps(entry)
            count += 1
            if count >= MAX_LISTED:
                yield json.dumps({"cut": f"after {MAX_LISTED} files"})
                return


def _metadata(folder: Path) -> str:
    """The state of the cluster as the newest snapshot and the log have it, the records of the log, and its
    batches; cut if they are long."""
    lines, size = list[str](), 0
    for entries in (_state(folder), log_rows(folder), _batches(folder)):
        try:
            for entry in entries:
                lines.append(json.dumps(entry, default=str))
                size += len(lines[-1])
                if size > MAX_METADATA:
                    return "\n".join([*lines, json.dumps({"cut": f"after {size} bytes"})]) + "\n"
        except (HeadraceError, OSError, ValueError) as error:  # the log is written meanwhile
            lines.append(json.dumps({"error": str(error)}))
    return "\n".join(lines) + "\n"


def _state(folder: Path) -> Iterator[dict[str, Any]]:
    image, origin = read_image(folder)
    yield {"state": origin}
    for path, entry in walk(tree_of(image, shown_keys()), "/"):
        if isinstance(entry, Leaf):
            yield {"path": path, "value": entry.value}


def _batches(folder: Path) -> Iterator[dict[str, Any]]:
    """Of files, since their records are read above, without secrets."""
    for path in sorted(folder.glob("*.log")):
        for _, entry in dump_path(OsFiles(), str(path), has_records=False):
            yield {"file": path.name, **entry.to_mapping()}


def _ray_logs(folder: Path) -> Iterator[tuple[str, str]]:
    """Logs of Ray's processes and of workers that ran headrace, the newest first."""
    try:
        paths = [path for path in folder.iterdir() if path.is_file() and path.stat().st_size]
    except OSError:
        return
    paths = [path for path in paths if path.name.startswith(_RAY_LOGS)]
    paths.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    taken = 0
    for path in paths:
        text = _tail(path)
        if path.name.startswith("worker-") and "headrace" not in text:
            continue
        yield f"logs/ray/{path.name}", text
        taken += 1
        if taken >= MAX_LOGS:
            return


def _processes() -> str:
    """The 40 largest processes. Command lines are masked with the rest."""
    fields = ("pid", "ppid", "name", "memory_info", "cpu_times", "num_threads", "status", "cmdline", "nice")
    rows = [each.info for each in psutil.process_iter(fields)]
    rows.sort(key=lambda row: row["memory_info"].rss if row["memory_info"] else 0, reverse=True)
    lines = ["pid ppid nice status threads rss_kib cpu_s command"]
    for row in rows[:40]:
        memory, cpu = row["memory_info"], row["cpu_times"]
        command = " ".join(row["cmdline"] or [row["name"] or "?"])[:300]
        rss, cpu_s = (memory.rss >> 10 if memory else 0), (cpu.user + cpu.system if cpu else 0.0)
        facts = (row["pid"], row["ppid"], row["nice"], row["status"], row["num_threads"], rss, f"{cpu_s:.1f}")
        lines.append(" ".join(map(str, facts)) + f" {command}")
    return "\n".join(lines) + "\n"


def _environment() -> str:
    """Variables of Ray, of headrace and of Python, and facts about this process."""
    shown = {n: v for n, v in os.environ.items() if n.startswith(("RAY_", "HEADRACE_", "PYTHON", "JAVA_"))}
    lines = [f"python {sys.version}", f"executable {sys.executable}", f"time {time.time():.3f}", ""]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in sorted(shown.items()))]) + "\n"


def _journal() -> list[str]:
    if shutil.which("journalctl") is None:
        return []
    return ["journalctl", "--no-pager", "-u", "headrace-*", "-n", JOURNAL_LINES, "-o", "short-iso"]


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}\n"
    return done.stdout


def _text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _tail(path: Path) -> str:
    """The end of a log, from a whole line."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - MAX_LOG))
            data = stream.read(MAX_LOG)
    except OSError as error:
        return f"{path}: {error.strerror}\n"
    if size > MAX_LOG:
        data = data[data.find(b"\n") + 1 :]
    return data.decode(errors="replace")


def _put(found: dict[str, str], entries: Iterable[tuple[str, str]]) -> None:
    """Add texts; two files of one name do not replace each other."""
    for path, text in entries:
        name, number = path, 1
        while name in found:
            number += 1
            name = f"{path}.{number}"
        found[name] = text
