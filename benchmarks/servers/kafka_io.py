"""Apache Kafka, its jars from Maven: command-line tools, and a single KRaft node on loopback.

Shared by the benchmarks and tests/oracle.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.runtime.ports_io import reserve_ports
from headrace.runtime.waiting_io import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

POM = Path(__file__).with_name("kafka_pom.xml")
# the only declaration of the version that benchmarks and oracle run
VERSION = "4.3.1"
TOOL_JVM = ("-Xms256M", "-Xmx512M", "-Djava.awt.headless=true")
# the flags of Kafka's start script, with a heap of fixed size
SERVER_JVM = (
    "-server",
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
_FORMAT = ("format", "--standalone")
# three JVMs on a busy machine of two cores took more than a minute
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 60.0


class KafkaError(RuntimeError):
    """A Kafka process failed; the text holds what it printed."""


def absent() -> str | None:
    """Why Kafka cannot run on this machine, or None."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def cache_home() -> Path:
    """The folder for downloads and temporary data: HEADRACE_CACHE, or ~/.cache/headrace."""
    return Path(os.environ.get("HEADRACE_CACHE", Path.home() / ".cache" / "headrace"))


def classpath() -> str:
    """Kafka's jars, downloaded once into the cache folder."""
    return download(f"kafka-{VERSION}", POM, {"kafka.version": VERSION})


def download(name: str, pom: Path, properties: Mapping[str, str]) -> str:
    """The dependencies of a POM as a class path, downloaded once; safe in concurrent processes.

    Each text of the POM has a folder of its own: a changed POM is downloaded again.
    """
    cache = cache_home() / f"{name}-{zlib.crc32(pom.read_bytes()):08x}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / ".complete").exists():
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            settings = [f"-D{key}={value}" for key, value in {**properties, "outputDirectory": cache}.items()]
            subprocess.run([*command, *settings], check=True, timeout=600)
            (cache / ".complete").touch()
    return f"{cache}/*"


def compiled(name: str, sources: Iterable[Path], jars: str) -> Path:
    """The classes of Java programs that use `jars`, compiled once for each text of the sources; safe in
    concurrent processes."""
    paths = sorted(sources)
    text = zlib.crc32(b"".join(path.read_bytes() for path in paths), zlib.crc32(jars.encode()))
    classes = cache_home() / f"{name}-{text:08x}"
    classes.mkdir(parents=True, exist_ok=True)
    with (classes / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (classes / ".complete").exists():
            command = ["javac", "-nowarn", "-cp", jars, "-d", str(classes), *map(str, paths)]
            subprocess.run(command, check=True, timeout=120, capture_output=True)
            (classes / ".complete").touch()
    return classes


def run_tool(main_class: str, *arguments: str) -> str:
    """The output of one of Kafka's tools. Errors: KafkaError."""
    command = ["java", *TOOL_JVM, "-cp", classpath(), main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise KafkaError(done.stdout + done.stderr)
    return done.stdout


@contextlib.contextmanager
def pinned(cores: Iterable[int] | None) -> Iterator[None]:
    """Processes started meanwhile run on `cores` only (None: on all that this thread may use)."""
    before = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, set(cores))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def random_id() -> str:
    """In Kafka's format: 22 characters of Base64, not starting with a dash."""
    while (found := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return found


class KafkaNode:
    """One KRaft node, broker and controller in one JVM."""

    def __init__(self, process: subprocess.Popen[bytes], bootstrap: str, scratch: Path) -> None:
        self.process, self.bootstrap, self.pid = process, bootstrap, process.pid
        self._scratch = scratch

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after a timeout; may be called again."""
        try:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.wait(STOP_TIMEOUT_S)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)


def start_node(
    log_dir: Path,
    overrides: dict[str, str],
    *,
    jvm: Sequence[str] = TOOL_JVM,
    cores: Iterable[int] | None = None,
    ports: tuple[int, int] | None = None,
) -> KafkaNode:
    """A node with its data in `log_dir`, which accepts connections. Errors: KafkaError.

    The folder of an earlier node is used again, not formatted. `ports`: reserved, of broker and controller.
    """
    broker, controller = ports or reserve_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }
    scratch = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
    try:
        config = scratch / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not (log_dir / "meta.properties").exists():
            run_tool("kafka.tools.StorageTool", *_FORMAT, "-t", random_id(), "-c", str(config))
        log = scratch / "server.log"
        command = ["java", *jvm, "-cp", classpath(), "kafka.Kafka", str(config)]
        with log.open("w") as output, pinned(cores):
            process = subprocess.Popen(command, stdout=output, stderr=output)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    node = KafkaNode(process, f"127.0.0.1:{broker}", scratch)
    try:
        wait_for_port(process, broker, log)
    except BaseException:
        node.stop()
        raise
    return node


@contextlib.contextmanager
def kafka_server(log_dir: Path, **overrides: str) -> Iterator[str]:
    """`start_node` as a context with the bootstrap address."""
    node = start_node(log_dir, overrides)
    try:
        yield node.bootstrap
    finally:
        node.stop()


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until a starting node accepts connections. Errors: KafkaError with the end of its log."""

    def accepts() -> bool:
        if process.poll() is not None:
            raise KafkaError(f"Kafka ended: {log.read_text()[-3000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    if not until(accepts, START_TIMEOUT_S):
        raise KafkaError(f"Kafka did not open port {port}: {log.read_text()[-3000:]}")
