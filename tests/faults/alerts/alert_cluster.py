"""A cluster of processes with endpoints for Prometheus, and faults of its servers."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import headrace
import process_log
from fault_cluster import FaultCluster, Server
from headrace import TopicPartition

HOST = "127.0.0.1"
LAG_MS = 4_000  # replica.lag.time.max.ms: followers may be slow for longer than rules allow
STALLS = (process_log.LOOP_STALL, process_log.READ_STALL)
PASSWORD = "right-pa55word"
CONFIG = {
    "metrics.listener": f"{HOST}:0",
    "listeners": f"PLAINTEXT://{HOST}:0,SASL_PLAINTEXT://{HOST}:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'm required user_alice="{PASSWORD}";',
    "sasl.enabled.mechanisms": "PLAIN",
    "replica.lag.time.max.ms": LAG_MS,
    "log.cleaner.backoff.ms": 200,
    "log.flush.offset.checkpoint.interval.ms": 300,  # the interval of writes to each log dir
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.min.isr": 1,  # a lost node is not one too many for it
}
CONTROLLER_CONFIG = {"controller.metrics.listener": f"{HOST}:0", "auto.leader.rebalance.enable": False}


class AlertCluster(FaultCluster):
    """Three controllers and three nodes, of which the last has two log dirs. Endpoints keep their ports over
    restarts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, controllers=3, config=CONFIG, controller_config=CONTROLLER_CONFIG)

    def _start_quorum(self) -> None:
        for server in self.servers.values():
            server.environment |= {variable: str(stall_file(server, variable)) for variable in STALLS}
        super()._start_quorum()

    def _node_arguments(self, server: Server) -> list[str]:
        directory, *more = super()._node_arguments(server)
        return [",".join(map(str, log_dirs(server))) if server is self.nodes[-1] else directory, *more]

    @property
    def endpoints(self) -> list[str]:
        """Where Prometheus scrapes the servers."""
        return [f"http://{HOST}:{port_of(server, 'metrics')}/metrics" for server in self.servers.values()]

    def create(self, name: str, *replicas: int, partitions: int = 1, **configs: Any) -> bytes:
        """Create a topic of which all partitions have these replicas; the id when they are in sync."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        assignments = dict.fromkeys(range(partitions), replicas)
        topic = headrace.NewTopic(name, assignments=assignments, configs=settings)
        with self.clients.admin() as admin:
            admin.create_topics(topic).raise_for_errors()
        self.until_in_sync(name, len(replicas))
        self.until_serving(name)
        return self.image().topics[name].topic_id

    def end_faults(self) -> None:
        """Heal the network, and let all servers run."""
        self.network.heal()
        self.stall_controllers_disks(0)
        for server in self.servers.values():
            release(server)
            if server.is_alive:
                server.resume()
            else:
                server.start()

    def delete(self, *names: str) -> None:
        """Delete topics."""
        with self.clients.admin() as admin:
            admin.delete_topics(*names).raise_for_errors()


def log_dirs(server: Server) -> tuple[Path, Path]:
    """Those of the node that has two."""
    return server.directory, server.directory.with_name(f"{server.name}-second")


def first_segment(server: Server, tp: TopicPartition) -> Path:
    """The file of the replica's first segment."""
    name = f"{tp.topic}-{tp.partition}/{0:020d}.log"
    return next(path for path in (each / name for each in log_dirs(server)) if path.exists())


def port_of(server: Server, listener: str) -> int:
    """The port of a listener, which the server has stored."""
    return int((server.directory / f"listener.{listener}.port").read_text())


def stall_file(server: Server, variable: str) -> Path:
    """While it exists, the event loop or reads of the server hang."""
    return server.directory.with_name(f"{server.name}.{variable}")


def hang(server: Server) -> None:
    """Let the event loop stand still, as in a system call that does not return, until `release`."""
    stall_file(server, process_log.LOOP_STALL).touch()
    assert server.process is not None
    server.process.send_signal(signal.SIGUSR1)


def hang_reads(server: Server) -> None:
    """Let no read of the disk return, until `release`."""
    stall_file(server, process_log.READ_STALL).touch()


def release(server: Server) -> None:
    """End `hang` and `hang_reads`."""
    for variable in STALLS:
        stall_file(server, variable).unlink(missing_ok=True)


def limit_descriptors(server: Server, spare: int) -> tuple[int, int]:
    """Allow the process `spare` more open files than it has; the limits before."""
    assert server.process is not None
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + spare, before[1]))
    return before
