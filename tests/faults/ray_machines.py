"""A headrace cluster on a Ray cluster of several machines, and its faults."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import headrace
from fault_cluster import ASK_TIMEOUT_S, HOST
from headrace.protocol.errors import HeadraceError
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import MetadataRequest, MetadataResponse
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.ports_io import reserve_ports
from headrace_command import Headrace
from waiting import wait_for

SCRIPT = Path(__file__).with_name("ray_machines_process.py")
DISK = "headrace-disk"
END_S = 60.0
EXPECTED = (HeadraceError, OSError, TimeoutError)  # of a node that is down


class RayMachines:
    """A head and `nodes` machines, each with a disk resource of its own; node I of the cluster is on machine
    I, the controller on the head, whose GCS can be killed. A context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        config: Mapping[str, Any] | None = None,
        ray: Mapping[str, Any] | None = None,
    ) -> None:
        """`config`: of the cluster, `ray`: system configs of Ray."""
        self.command = Headrace(folder)
        self._nodes, self._config = nodes, {"listener.host": HOST, **(config or {})}
        self._temp = Path(tempfile.mkdtemp(prefix="hr-rm-", dir="/tmp"))  # short: Ray's sockets are below it
        (self._temp / "gcs").mkdir()
        # as in ray_cluster.yaml: a restarted GCS knows its actors
        gcs = {"gcs_storage": "rocksdb", "gcs_storage_path": self._temp / "gcs"}
        own = {"prestart_worker_first_driver": 0}  # as in own_ray_io.py
        settings = {f"RAY_{name}": str(value) for name, value in (gcs | own | dict(ray or {})).items()}
        self.command.environment |= {**settings, "RAY_TMPDIR": str(self._temp)}
        self._log = folder / "machines.log"
        self.address = ""
        self._process: Any = None
        self._bootstrap: list[str] = []
        self._clients: headrace.Cluster | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._clients is not None:
                self._clients.close(1)
            if self._process is not None:
                self._process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_S)
                self._process.stdout.close()
        finally:
            self.command.kill_all()
            self.command.wait_until_nothing_runs()
            shutil.rmtree(self._temp, ignore_errors=True)

    def _start(self) -> None:
        port = str(reserve_ports(1)[0])
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(SCRIPT), port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.command.environment,
                start_new_session=True,
                text=True,
            )
        self.address = self._answer()
        for number in range(1, self._nodes + 1):
            self.add(number)
        self._do("settle")
        self.up()
        self._bootstrap = self.command.running()["bootstrap"]

    # --- machines -----------------------------------------------------------------------------------------

    def add(self, number: int) -> int:
        """Start machine `number`, for the first time or again; returns the pid of its raylet."""
        return int(self._do("add", f"machine-{number}", {f"{DISK}-{number}": 1}))

    def kill(self, number: int) -> None:
        """SIGKILL the machine's raylet; Ray's workers end when they notice."""
        self._do("kill", f"machine-{number}")

    def kill_gcs(self) -> None:
        """SIGKILL Ray's GCS."""
        self._do("kill_gcs")

    def start_gcs(self) -> None:
        """Start a GCS process with the same files."""
        self._do("start_gcs")

    def _do(self, *words: Any) -> Any:
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        assert line, f"the machines have ended\n{self._log.read_text(errors='replace')[-3_000:]}"
        return json.loads(line)

    # --- the cluster --------------------------------------------------------------------------------------

    def up(self, nodes: int | None = None, code: int = 0) -> str:
        """Run `headrace up`; returns its standard error."""
        options = [word for name, value in self._config.items() for word in ("-X", f"{name}={value}")]
        where = ("--ray-address", self.address, "--disk-resource", DISK)
        count = str(nodes or self._nodes)
        return self.command.run("up", "--nodes", count, *where, *options, code=code)[1]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(self._bootstrap)

    @property
    def clients(self) -> headrace.Cluster:
        """Clients of the test itself."""
        if self._clients is None:
            self._clients = headrace.connect(self.bootstrap, client_id="observer-1")
        return self._clients

    def servers(self) -> dict[str, dict[str, Any]]:
        """The status of each server, by its name."""
        facts = self.command.status()
        return {each["name"]: each for each in (*facts["nodes"], *facts["controllers"])}

    def server(self, name: str) -> dict[str, Any]:
        """The status of a running server, once it answers."""
        found: dict[str, Any] = {}

        def answers() -> bool:
            found.update(self.servers().get(name, {}))
            return "pid" in found

        self.until(answers, f"{name} answers")
        return found

    def end_actor(self, name: str) -> None:
        """End the actor permanently, as Ray does after too many restarts."""
        program = (
            "import ray, sys\n"
            "ray.init(address=sys.argv[1], log_to_driver=False)\n"
            "ray.kill(ray.get_actor(sys.argv[2], 'headrace-default'), no_restart=True)\n"
        )
        arguments = [sys.executable, "-W", "ignore", "-c", program, self.address, name]
        subprocess.run(arguments, env=self.command.environment, check=True, capture_output=True, timeout=500)

    def create_topic(self, name: str, partitions: int = 1, **configs: Any) -> None:
        """Create a topic on all nodes; wait until its replicas are in sync."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with self.clients.admin() as admin:
            admin.create_topics(headrace.NewTopic(name, partitions, self._nodes, settings)).raise_for_errors()
        self.until_in_sync(name)

    def partition(self, topic: str, number: int = 0) -> Any:
        """The partition in the newest metadata of all nodes."""
        return max(self._pictures(topic), key=lambda each: each.metadata_offset).topics[0].partitions[number]

    def leader(self, topic: str) -> int:
        """The leader of partition 0. Fails with the fencings if it has none."""
        leader = int(self.partition(topic).leader)
        assert leader >= 0, f"{topic}-0 has no leader\n" + "\n".join(self.log_lines(" fencing node"))
        return leader

    def until_in_sync(self, topic: str) -> None:
        """Wait until in every node's metadata each partition has a leader and all its replicas in sync."""

        def is_so() -> bool:
            found = [self._partitions(picture) for picture in self._pictures(topic)]
            return len(found) == self._nodes and all(
                partitions and all(each.leader >= 0 and len(each.isr) == self._nodes for each in partitions)
                for partitions in found
            )

        self.until(is_so, f"all replicas of {topic} are in sync")

    def until_led_by_another(self, topic: str, node_id: int) -> None:
        """Wait until other nodes lead all partitions of the topic, in the metadata of one of them."""

        def is_so() -> bool:
            found = [self._partitions(picture) for picture in self._pictures(topic)]
            return any(
                partitions and all(each.leader not in (-1, node_id) for each in partitions)
                for partitions in found
            )

        self.until(is_so, f"node {node_id} leads nothing")

    @staticmethod
    def _partitions(picture: Any) -> tuple[Any, ...]:
        return tuple(picture.topics[0].partitions)

    def _pictures(self, topic: str) -> list[Any]:
        """The topic's metadata in each node that responds."""

        async def ask(address: str) -> Any:
            host, _, port = address.rpartition(":")
            connection = await Connection.open(
                host, int(port), client_id="observer-0", timeout_s=ASK_TIMEOUT_S
            )
            try:
                request = MetadataRequest((topic,))
                return (await connection.request(registry.METADATA, request, timeout_s=ASK_TIMEOUT_S)).body
            finally:
                connection.close()

        async def ask_all() -> list[Any]:
            return await asyncio.gather(*map(ask, self._bootstrap), return_exceptions=True)

        answers = asyncio.run(ask_all())
        unexpected = [each for each in answers if not isinstance(each, (MetadataResponse, *EXPECTED))]
        assert not unexpected, unexpected
        return [each for each in answers if isinstance(each, MetadataResponse)]

    def until(self, is_so: Callable[[], object], what: str) -> None:
        """Poll until the condition holds. Fails with the end of the servers' logs."""
        wait_for(is_so, what, evidence=self.evidence)

    def evidence(self) -> str:
        """The fencings, and the end of each server log that Ray keeps."""
        ends = (f"--- {log.name}\n{log.read_text(errors='replace')[-2_000:]}" for log in self._logs())
        return "\n".join((*self.log_lines(" fencing node"), *ends))

    def log_lines(self, text: str) -> list[str]:
        """The lines with this text in the logs of all servers, by time."""
        lines = (line for log in self._logs() for line in log.read_text(errors="replace").splitlines())
        return sorted(line for line in lines if text in line)

    def _logs(self) -> list[Path]:
        """The log of each server process, in the order of their last writes."""
        return sorted(self._temp.glob("ray/session_2*/logs/worker-*.err"), key=os.path.getmtime)


def kill_process(pid: int) -> None:
    """SIGKILL a process that is not a child of this one."""
    os.kill(pid, signal.SIGKILL)
