"""Alert rules in the real Prometheus: a fault in a local cluster makes a rule fire, its end makes it stop."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import headrace
import pytest
from alerting import AlertWatch, alert_watch
from headrace.protocol.errors import HeadraceError
from headrace.services.certificates import CertificateAuthority
from headrace.services.local_io import LocalCluster

pytestmark = pytest.mark.faults

HOST = "127.0.0.1"
HOUR_MS = 3_600_000
FAST = {
    "metrics_listener": f"{HOST}:0",
    "controller_metrics_listener": f"{HOST}:0",
    "broker_session_timeout_ms": 1500,
    "replica_lag_time_max_ms": 2000,
    "auto_leader_rebalance_enable": False,
    "group_lag_interval_ms": 500,
}


class Watched(AlertWatch):
    """A local cluster, and the Prometheus that watches it."""

    def __init__(self, cluster: LocalCluster, watch: AlertWatch) -> None:
        super().__init__(watch.server)
        self.cluster = cluster

    def create(self, *topics: headrace.NewTopic) -> None:
        with self.cluster.admin() as admin:
            admin.create_topics(*topics).raise_for_errors()


@contextlib.contextmanager
def watched(folder: Path, **options: object) -> Iterator[Watched]:
    """The endpoints keep their ports over restarts."""
    with headrace.local(**{**FAST, **options}) as cluster:  # type: ignore[arg-type]
        status = cluster.status()
        urls = [each["telemetry"]["prometheus"] for each in (*status["nodes"], *status["controllers"])]
        with alert_watch(folder, urls) as watch:
            yield Watched(cluster, watch)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Three nodes and three controllers."""
    with watched(tmp_path_factory.mktemp("three"), nodes=3, controllers=3) as made:
        yield made


@pytest.mark.alerts(
    *("HeadraceServerDown", "HeadraceFencedNodes", "HeadraceOfflinePartitions"),
    *("HeadraceUnderReplicated", "HeadraceUnderMinIsr"),
)
def test_a_lost_node(three: Watched, fault: Callable) -> None:
    """Also its partition without another replica, and acks=all with too few replicas."""
    three.create(
        headrace.NewTopic("copied", assignments={0: (2, 3)}, configs={"min.insync.replicas": 2}),
        headrace.NewTopic("single", assignments={0: (3,)}),
    )
    with fault(three) as fires:
        three.cluster.kill_node(2)
        fires()
        three.cluster.restart_node(2)


@pytest.mark.alerts("HeadraceQuorumVoterMissing", "HeadraceNoActiveController", "HeadraceServerDown")
def test_lost_controllers(three: Watched, fault: Callable) -> None:
    """One of three is missing; without a majority there is no active controller."""
    with fault(three) as fires:
        three.cluster.kill_controller(2)
        fires("HeadraceQuorumVoterMissing")
        three.cluster.kill_controller(1)
        fires()
        three.cluster.restart_controller(1)
        three.cluster.restart_controller(2)


@pytest.mark.alerts("HeadraceLeaderSkew", "HeadraceReplicaSkew")
def test_partitions_on_one_node(three: Watched, fault: Callable) -> None:
    """Its leaderships and replicas are three times the average."""
    with fault(three) as fires:
        three.create(headrace.NewTopic("skewed", assignments=dict.fromkeys(range(100), (1,))))
        fires()
        with three.cluster.admin() as admin:
            admin.delete_topics("skewed").raise_for_errors()


@pytest.mark.alerts("HeadracePreferredLeaderImbalance")
def test_leaders_that_are_not_preferred(three: Watched, fault: Callable) -> None:
    """As after a restart, until an election."""
    three.create(headrace.NewTopic("moved", assignments=dict.fromkeys(range(30), (2, 1))))
    with fault(three) as fires:
        three.cluster.restart_node(1)
        fires()
        with three.cluster.admin() as admin:
            admin.elect_leaders(headrace.ElectionType.PREFERRED)
    with three.cluster.admin() as admin:
        admin.delete_topics("moved").raise_for_errors()


@pytest.mark.alerts("HeadraceBytesRejected", "HeadraceProduceFails")
def test_batches_that_are_too_large(three: Watched, fault: Callable) -> None:
    """Refused by the topic's limit: rejected bytes, and failed entries."""
    three.create(headrace.NewTopic("small", configs={"max.message.bytes": 1000}))
    with fault(three) as fires, three.cluster.producer() as producer:

        def send() -> None:
            for _ in range(20):
                with contextlib.suppress(HeadraceError):
                    producer.send("small", value=b"x" * 5000).result(10)

        fires(each=send)


@pytest.mark.alerts("HeadraceUncleanElection")
def test_an_unclean_election(three: Watched, fault: Callable) -> None:
    """The in-sync replica is gone, and the other one lacks a record."""
    three.create(
        headrace.NewTopic(
            "unclean", assignments={0: (2, 3)}, configs={"unclean.leader.election.enable": "true"}
        )
    )
    with fault(three) as fires:
        three.cluster.kill_node(2)
        with three.cluster.producer() as producer:
            producer.send("unclean", value=b"not copied").result(60)
        three.cluster.kill_node(1)
        three.cluster.restart_node(2)
        fires()
        three.cluster.restart_node(1)


@pytest.mark.alerts("HeadraceTransactionOld", "HeadraceTransactionLate")
def test_a_transaction_that_stays_open(three: Watched, fault: Callable) -> None:
    """Its last batch is an hour old."""
    three.create(headrace.NewTopic("open"))
    old_ms = int(time.time() * 1000) - HOUR_MS
    slow = three.cluster.producer(transactional_id="slow")
    with fault(three) as fires, slow as producer, producer.transaction():
        producer.send("open", value=b"x", timestamp=old_ms).result(30)
        fires()


@pytest.mark.alerts("HeadraceConsumerLate", "HeadraceConsumerLagGrows")
def test_a_group_that_does_not_read(three: Watched, fault: Callable) -> None:
    """Its first unread record is two hours old, and more come all the time."""
    three.create(headrace.NewTopic("unread"))
    old_ms = int(time.time() * 1000) - 2 * HOUR_MS
    with fault(three) as fires:
        with three.cluster.producer() as producer:
            producer.send("unread", value=b"first", timestamp=old_ms).result(30)
            with three.cluster.consumer("unread", group_id="late", auto_offset_reset="earliest") as consumer:
                assert consumer.poll(30)
                consumer.commit()

            def more() -> None:
                for _ in range(50):
                    producer.send("unread", value=b"x", timestamp=old_ms)
                producer.flush()

            fires(each=more)
        with three.cluster.consumer("unread", group_id="late") as consumer:
            while consumer.poll(3):
                pass
            consumer.commit()


@pytest.mark.alerts("HeadraceCertificateExpires", "HeadraceCertificateExpiresSoon")
def test_a_certificate_that_expires(tmp_path: Path, fault: Callable) -> None:
    """Both rules, until the file has a new one; Prometheus skips its verification here."""
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("test", now)

    def issue(days: int) -> None:
        issued = authority.issue("node", [HOST], now, days)
        (tmp_path / "key.pem").write_text(issued.key)
        (tmp_path / "chain.pem").write_text(issued.chain)

    issue(400)
    files = {
        "metrics_ssl_certificate_file": str(tmp_path / "chain.pem"),
        "metrics_ssl_key_file": str(tmp_path / "key.pem"),
    }
    with watched(tmp_path, nodes=1, **files) as made, fault(made) as fires:
        issue(1)
        fires()
        issue(400)


@pytest.mark.alerts("HeadraceEventLoopStalls")
def test_a_loop_that_stands_still(tmp_path: Path, fault: Callable) -> None:
    """For two seconds; the rule looks at the last minute."""
    with watched(tmp_path, nodes=1) as made, fault(made) as fires:
        made.cluster._thread.call(_stall(), 30)
        fires()


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


@pytest.mark.alerts("HeadraceDiskLow", "HeadraceDiskFullSoon", "HeadraceLogDirFull")
def test_a_disk_that_fills_up(tmp_path: Path, small_disk: Path, fault: Callable) -> None:
    """First little space is left, then none, until the topic is deleted."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "node-1").symlink_to(small_disk)  # the controller has room
    options = {"data_dir": str(data), "log_segment_delete_delay_ms": 0}
    with watched(tmp_path, nodes=1, **options) as made, fault(made) as fires:
        made.create(headrace.NewTopic("large"))
        with made.cluster.producer(delivery_timeout_ms=3_000, request_timeout_ms=2_000) as producer:

            def fill() -> None:
                for future in [producer.send("large", value=b"x" * 900_000) for _ in range(10)]:
                    with contextlib.suppress(HeadraceError):
                        future.result(30)

            fires(each=fill)
        with made.cluster.admin() as admin:
            admin.delete_topics("large").raise_for_errors()
