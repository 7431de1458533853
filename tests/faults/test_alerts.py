"""Alert rules in the real Prometheus: a fault in a real cluster makes a rule fire, its end makes it stop.

The rules are the shipped ones, with short windows and without the durations for which a fault must last.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import headrace
import pytest
from headrace.protocol.errors import HeadraceError
from headrace.services.certificates import CertificateAuthority
from headrace.services.local_io import LocalCluster
from headrace.services.telemetry.alert_rule import rules_file
from headrace.services.telemetry.alert_rules import RULE_GROUPS
from prometheus_server import PrometheusServer, prometheus
from waiting import wait_for

pytestmark = pytest.mark.faults

HOST = "127.0.0.1"
WINDOW = "[6s]"
HOUR_MS = 3_600_000
FAST = {
    "metrics_listener": f"{HOST}:0",
    "controller_metrics_listener": f"{HOST}:0",
    "broker_session_timeout_ms": 1500,
    "replica_lag_time_max_ms": 2000,
    "auto_leader_rebalance_enable": False,
    "group_lag_interval_ms": 500,
}


class Watched:
    """A cluster with a Prometheus that watches it."""

    def __init__(self, cluster: LocalCluster, server: PrometheusServer) -> None:
        self.cluster, self.server = cluster, server

    def create(self, *topics: headrace.NewTopic) -> None:
        with self.cluster.admin() as admin:
            admin.create_topics(*topics).raise_for_errors()

    def wait_firing(self, *names: str) -> None:
        wait_for(
            lambda: self.server.alerts() >= set(names),
            f"{names} fire",
            90,
            lambda: f"{self.server.alerts()} {self.server.evidence()}",
        )

    def wait_quiet(self, *names: str) -> None:
        wait_for(
            lambda: not self.server.alerts() & set(names),
            f"{names} do not fire",
            90,
            lambda: f"{self.server.alerts()} {self.server.evidence()}",
        )

    @contextlib.contextmanager
    def fault(self, *names: str) -> Iterator[None]:
        """The body causes the fault and ends it: the rules fire at its `yield`ed middle, and are quiet before
        and after."""
        self.wait_quiet(*names)
        yield
        self.wait_quiet(*names)


@contextlib.contextmanager
def watched(folder: Path, **options: object) -> Iterator[Watched]:
    """The endpoints keep their ports over restarts."""
    rules = folder / "rules.yml"
    rules.write_text(re.sub(r"\[\d+[mh]\]", WINDOW, rules_file(RULE_GROUPS, hold="0s")))
    with headrace.local(**{**FAST, **options}) as cluster:  # type: ignore[arg-type]
        status = cluster.status()
        urls = [each["telemetry"]["prometheus"] for each in (*status["nodes"], *status["controllers"])]
        with prometheus(folder / "prometheus", {"headrace": urls}, [rules], "500ms") as server:
            server.wait_for(f"sum(up) == {len(urls)}", "all servers are scraped")
            yield Watched(cluster, server)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Three nodes and three controllers."""
    with watched(tmp_path_factory.mktemp("three"), nodes=3, controllers=3) as made:
        yield made


def test_a_lost_node(three: Watched) -> None:
    """Also its partition without another replica, and acks=all with too few replicas."""
    three.create(
        headrace.NewTopic("copied", assignments={0: (2, 3)}, configs={"min.insync.replicas": 2}),
        headrace.NewTopic("single", assignments={0: (3,)}),
    )
    names = (
        *("HeadraceServerDown", "HeadraceFencedNodes", "HeadraceOfflinePartitions"),
        *("HeadraceUnderReplicated", "HeadraceUnderMinIsr"),
    )
    with three.fault(*names):
        three.cluster.kill_node(2)
        three.wait_firing(*names)
        three.cluster.restart_node(2)


def test_lost_controllers(three: Watched) -> None:
    """One of three is missing; without a majority there is no active controller."""
    names = ("HeadraceQuorumVoterMissing", "HeadraceNoActiveController", "HeadraceServerDown")
    with three.fault(*names):
        three.cluster.kill_controller(2)
        three.wait_firing("HeadraceQuorumVoterMissing")
        three.cluster.kill_controller(1)
        three.wait_firing(*names)
        three.cluster.restart_controller(1)
        three.cluster.restart_controller(2)


def test_partitions_on_one_node(three: Watched) -> None:
    """Its leaderships and replicas are three times the average."""
    names = ("HeadraceLeaderSkew", "HeadraceReplicaSkew")
    with three.fault(*names):
        three.create(headrace.NewTopic("skewed", assignments=dict.fromkeys(range(100), (1,))))
        three.wait_firing(*names)
        with three.cluster.admin() as admin:
            admin.delete_topics("skewed").raise_for_errors()


def test_leaders_that_are_not_preferred(three: Watched) -> None:
    """As after a restart, until an election."""
    three.create(headrace.NewTopic("moved", assignments=dict.fromkeys(range(30), (2, 1))))
    with three.fault("HeadracePreferredLeaderImbalance"):
        three.cluster.restart_node(1)
        three.wait_firing("HeadracePreferredLeaderImbalance")
        with three.cluster.admin() as admin:
            admin.elect_leaders(headrace.ElectionType.PREFERRED)
    with three.cluster.admin() as admin:
        admin.delete_topics("moved").raise_for_errors()


def test_batches_that_are_too_large(three: Watched) -> None:
    """Refused by the topic's limit: rejected bytes, and failed entries."""
    three.create(headrace.NewTopic("small", configs={"max.message.bytes": 1000}))
    names = ("HeadraceBytesRejected", "HeadraceProduceFails")
    with three.fault(*names), three.cluster.producer() as producer:

        def refused() -> bool:
            for _ in range(20):
                with contextlib.suppress(HeadraceError):
                    producer.send("small", value=b"x" * 5000).result(10)
            return three.server.alerts() >= set(names)

        wait_for(refused, f"{names} fire", evidence=three.server.evidence)


def test_an_unclean_election(three: Watched) -> None:
    """The in-sync replica is gone, and the other one lacks a record."""
    three.create(
        headrace.NewTopic(
            "unclean", assignments={0: (2, 3)}, configs={"unclean.leader.election.enable": "true"}
        )
    )
    with three.fault("HeadraceUncleanElection"):
        three.cluster.kill_node(2)
        with three.cluster.producer() as producer:
            producer.send("unclean", value=b"not copied").result(60)
        three.cluster.kill_node(1)
        three.cluster.restart_node(2)
        three.wait_firing("HeadraceUncleanElection")
        three.cluster.restart_node(1)


def test_a_transaction_that_stays_open(three: Watched) -> None:
    """Its last batch is an hour old."""
    three.create(headrace.NewTopic("open"))
    names = ("HeadraceTransactionOld", "HeadraceTransactionLate")
    old_ms = int(time.time() * 1000) - HOUR_MS
    slow = three.cluster.producer(transactional_id="slow")
    with three.fault(*names), slow as producer, producer.transaction():
        producer.send("open", value=b"x", timestamp=old_ms).result(30)
        three.wait_firing(*names)


def test_a_group_that_does_not_read(three: Watched) -> None:
    """Its first unread record is two hours old, and more come all the time."""
    three.create(headrace.NewTopic("unread"))
    old_ms = int(time.time() * 1000) - 2 * HOUR_MS
    names = ("HeadraceConsumerLate", "HeadraceConsumerLagGrows")
    with three.fault(*names):
        with three.cluster.producer() as producer:
            producer.send("unread", value=b"first", timestamp=old_ms).result(30)
            with three.cluster.consumer("unread", group_id="late", auto_offset_reset="earliest") as consumer:
                assert consumer.poll(30)
                consumer.commit()

            def more() -> bool:
                for _ in range(50):
                    producer.send("unread", value=b"x", timestamp=old_ms)
                producer.flush()
                return three.server.alerts() >= set(names)

            wait_for(more, f"{names} fire", evidence=three.server.evidence)
        with three.cluster.consumer("unread", group_id="late") as consumer:
            while consumer.poll(3):
                pass
            consumer.commit()


def test_a_certificate_that_expires(tmp_path: Path) -> None:
    """Both rules, until the file has a new one; Prometheus skips its verification here."""
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("test", now)

    def issue(days: int) -> None:
        issued = authority.issue("node", [HOST], now, days)
        (tmp_path / "key.pem").write_text(issued.key)
        (tmp_path / "chain.pem").write_text(issued.chain)

    issue(1)
    files = {
        "metrics_ssl_certificate_file": str(tmp_path / "chain.pem"),
        "metrics_ssl_key_file": str(tmp_path / "key.pem"),
    }
    names = ("HeadraceCertificateExpires", "HeadraceCertificateExpiresSoon")
    with watched(tmp_path, nodes=1, **files) as made:
        made.wait_firing(*names)
        issue(400)
        made.wait_quiet(*names)


def test_a_loop_that_stands_still(tmp_path: Path) -> None:
    """For two seconds; the rule looks at the last minute."""
    with watched(tmp_path, nodes=1) as made, made.fault("HeadraceEventLoopStalls"):
        made.cluster._thread.call(_stall(), 30)
        made.wait_firing("HeadraceEventLoopStalls")


async def _stall() -> None:
    time.sleep(2)  # noqa: ASYNC251 -- the fault: code that does not yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 MB, which needs root."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_disk_that_fills_up(tmp_path: Path, small_disk: Path) -> None:
    """First little space is left, then none, until the topic is deleted."""
    names = ("HeadraceDiskLow", "HeadraceLogDirFull")
    data = tmp_path / "data"
    data.mkdir()
    (data / "node-1").symlink_to(small_disk)  # the controller has room
    with watched(tmp_path, nodes=1, data_dir=str(data), log_segment_delete_delay_ms=0) as made:
        made.wait_quiet(*names)
        made.create(headrace.NewTopic("large"))
        with made.cluster.producer(delivery_timeout_ms=3_000, request_timeout_ms=2_000) as producer:

            def filled() -> bool:
                for future in [producer.send("large", value=b"x" * 900_000) for _ in range(10)]:
                    with contextlib.suppress(HeadraceError):
                        future.result(30)
                return made.server.alerts() >= set(names)

            wait_for(filled, f"{names} fire", evidence=made.server.evidence)
        with made.cluster.admin() as admin:
            admin.delete_topics("large").raise_for_errors()
        made.wait_quiet(*names)
