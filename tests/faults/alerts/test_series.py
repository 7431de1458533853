"""What dashboards and alert rules name exists in a running cluster, as the real Prometheus scrapes it."""

import pytest
from alert_cluster import AlertCluster
from alerting import AlertWatch
from headrace.services.telemetry.alert_rules import ALERT_RULES
from headrace.services.telemetry.dashboards import DASHBOARDS
from promql import metrics_in
from waiting import wait_for

pytestmark = pytest.mark.xdist_group("alerts")  # one cluster for all

# Metrics that have series only after an event, or only with a configuration, which other tests have.
SELDOM = {
    "headrace_client_quota_manager_throttled_total": "a client above its quota",
    "headrace_tls_certificate_not_after_seconds": "a listener with a certificate",
    "kafka_log_logcleanermanager_uncleanable_partitions_count": "a partition that cannot be compacted",
    "kafka_network_requestmetrics_errors_total": "a request that got an error",
}


def test_named_metrics_have_series(cluster: AlertCluster, watch: AlertWatch) -> None:
    """After some records of a transaction, which a group has read."""
    cluster.create("seen", 1, 2)
    with cluster.clients.producer(transactional_id="seen") as producer, producer.transaction():
        producer.send("seen", b"x")
    with cluster.clients.consumer("seen", group_id="seen", auto_offset_reset="earliest") as consumer:
        cluster.until(lambda: consumer.poll(1), "a record is read")
        consumer.commit()
    expressions = [rule.expression for rule in ALERT_RULES]
    expressions += [each for board in DASHBOARDS for panel in board.panels for each in panel.expressions]
    names = set().union(*map(metrics_in, expressions)) - SELDOM.keys()

    def missing() -> set[str]:
        found = watch.server.query('count by (__name__) ({job="headrace"})')
        return names - {each["metric"]["__name__"] for each in found}

    wait_for(lambda: not missing(), "all metrics have series", evidence=lambda: f"{sorted(missing())}")
    cluster.delete("seen")
