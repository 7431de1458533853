"""Grafana dashboards as code. Pure; `headrace telemetry dashboards` prints them as JSON.

Expressions name metrics of runtime/telemetry/table.py (`tests/unit/services/telemetry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_WHERE = 'cluster=~"$cluster", instance=~"$instance"'
_CLUSTER = 'cluster=~"$cluster"'
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph, or a number (`is_stat`). `queries` are pairs of an expression and its legend; SELECT stands
    for the labels that the variables choose, CLUSTER for those of the cluster alone."""

    title: str
    unit: str  # of Grafana
    queries: tuple[tuple[str, str], ...]
    is_stat: bool = False

    @property
    def expressions(self) -> tuple[str, ...]:
        """With the labels filled in."""
        return tuple(
            expression.replace("SELECT", _WHERE).replace("CLUSTER", _CLUSTER)
            for expression, _ in self.queries
        )

    def as_json(self, number: int) -> dict[str, Any]:
        """At its place in the grid."""
        row, column = divmod(number, _COLUMNS)
        return {
            "id": number + 1,
            "title": self.title,
            "type": "stat" if self.is_stat else "timeseries",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
                for index, (expression, (_, legend)) in enumerate(
                    zip(self.expressions, self.queries, strict=True)
                )
            ],
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Panels in rows of three."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    def as_json(self) -> dict[str, Any]:
        """For Grafana's import and provisioning."""
        metric = "headrace_build_info"
        return {
            "uid": f"headrace-{self.name}",
            "title": f"headrace: {self.title}",
            "tags": ["headrace"],
            "schemaVersion": 39,
            "time": {"from": "now-3h", "to": "now"},
            "refresh": "30s",
            "templating": {
                "list": [
                    {"name": "datasource", "type": "datasource", "query": "prometheus"},
                    _variable("cluster", f"label_values({metric}, cluster)"),
                    _variable("instance", f'label_values({metric}{{cluster=~"$cluster"}}, instance)'),
                ]
            },
            "panels": [panel.as_json(number) for number, panel in enumerate(self.panels)],
        }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": query,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def _line(title: str, unit: str, expression: str, legend: str = "{{instance}}") -> Panel:
    return Panel(title, unit, ((expression, legend),))


def _rate(title: str, unit: str, metric: str, by: str = "instance", labels: str = "SELECT") -> Panel:
    expression = f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"
    return _line(title, unit, expression, f"{{{{{by}}}}}")


def _number(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, ((expression, ""),), is_stat=True)


def _quantiles(title: str, bucket: str, labels: str = "SELECT") -> Panel:
    return Panel(
        title,
        "ms",
        tuple(
            (
                f"histogram_quantile({ratio}, sum by (le) (rate({bucket}{{{labels}}}[$__rate_interval])))",
                f"p{ratio * 100:g}",
            )
            for ratio in (0.5, 0.95, 0.99)
        ),
    )


_TOTAL = "kafka_network_requestmetrics_totaltimems_bucket"
_TRAFFIC = "kafka_server_brokertopicmetrics_"
_REPLICAS = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"

OVERVIEW = Dashboard(
    "overview",
    "cluster",
    (
        _number("Active controllers", f"sum({_CONTROLLER}activecontrollercount{{CLUSTER}})"),
        _number("Serving nodes", f"max({_CONTROLLER}activebrokercount{{CLUSTER}})"),
        _number("Partitions without a leader", f"max({_CONTROLLER}offlinepartitionscount{{CLUSTER}})"),
        _number("Under-replicated partitions", f"sum({_REPLICAS}underreplicatedpartitions{{CLUSTER}})"),
        _number("Partitions under min ISR", f"sum({_REPLICAS}underminisrpartitioncount{{CLUSTER}})"),
        _number("Log dirs offline", "sum(kafka_log_logmanager_offlinelogdirectorycount{CLUSTER})"),
        _rate("Bytes in", "Bps", f"{_TRAFFIC}bytesin_total", labels='SELECT, topic=""'),
        _rate("Bytes out", "Bps", f"{_TRAFFIC}bytesout_total", labels='SELECT, topic=""'),
        _rate("Records in", "cps", f"{_TRAFFIC}messagesin_total", labels='SELECT, topic=""'),
        _quantiles("Produce", _TOTAL, 'SELECT, request="Produce"'),
        _quantiles("Fetch of followers", _TOTAL, 'SELECT, request="FetchFollower"'),
        _rate("Requests", "reqps", "kafka_network_requestmetrics_requests_total", by="request"),
        _line(
            "Idle event loops",
            "percentunit",
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{SELECT}",
        ),
        _line(
            "Free disks",
            "percentunit",
            "headrace_log_manager_disk_free_bytes{SELECT} / headrace_log_manager_disk_total_bytes{SELECT}",
            "{{instance}} {{directory}}",
        ),
        _line(
            "Consumer lag in seconds",
            "s",
            "topk(10, max by (group) (kafka_consumergroup_lag_seconds_max{CLUSTER}))",
            "{{group}}",
        ),
    ),
)

NODES = Dashboard(
    "nodes",
    "storage nodes",
    (
        _rate("CPU", "percentunit", "process_cpu_seconds_total"),
        _line("Memory", "bytes", "process_resident_memory_bytes{SELECT}"),
        _line("Longest stall of the event loop", "s", "headrace_event_loop_longest_stall_seconds{SELECT}"),
        _line("Partitions", "short", f"{_REPLICAS}partitioncount{{SELECT}}"),
        _line("Leaders", "short", f"{_REPLICAS}leadercount{{SELECT}}"),
        _line("Largest replica lag", "short", "kafka_server_replicafetchermanager_maxlag{SELECT}"),
        _rate("ISR shrinks", "cps", f"{_REPLICAS}isrshrinks_total"),
        _rate("ISR expansions", "cps", f"{_REPLICAS}isrexpands_total"),
        _rate("Replication bytes in", "Bps", f"{_TRAFFIC}replicationbytesin_total"),
        _quantiles("Time in the event loop", "kafka_network_requestmetrics_localtimems_bucket"),
        _quantiles("Wait for replicas and records", "kafka_network_requestmetrics_remotetimems_bucket"),
        _line(
            "Waiting requests",
            "short",
            "kafka_server_delayedoperationpurgatory_purgatorysize{SELECT}",
            "{{instance}} {{delayedOperation}}",
        ),
        _line(
            "Connections",
            "short",
            "kafka_server_socket_server_metrics_connection_count{SELECT}",
            "{{instance}} {{listener}}",
        ),
        _rate("Request errors", "cps", "kafka_network_requestmetrics_errors_total", by="error"),
        _rate("Throttled clients", "cps", "headrace_client_quota_manager_throttled_total", by="quota"),
        _line("File descriptors", "percentunit", "process_open_fds{SELECT} / process_max_fds{SELECT}"),
        _line(
            "Size of log dirs",
            "bytes",
            "kafka_log_logmanager_logdirectorysize{SELECT}",
            "{{instance}} {{logDirectory}}",
        ),
        _line(
            "Days until certificates expire",
            "d",
            "(headrace_tls_certificate_not_after_seconds{SELECT} - time()) / 86400",
            "{{instance}} {{listener}}",
        ),
    ),
)

TOPICS = Dashboard(
    "topics",
    "topics and groups",
    (
        _rate("Bytes in", "Bps", f"{_TRAFFIC}bytesin_total", by="topic", labels='SELECT, topic!=""'),
        _rate("Bytes out", "Bps", f"{_TRAFFIC}bytesout_total", by="topic", labels='SELECT, topic!=""'),
        _rate("Records in", "cps", f"{_TRAFFIC}messagesin_total", by="topic", labels='SELECT, topic!=""'),
        _line(
            "Size of all replicas",
            "bytes",
            "topk(20, sum by (topic) (headrace_log_topic_size{SELECT}))",
            "{{topic}}",
        ),
        _rate(
            "Failed produce entries",
            "cps",
            f"{_TRAFFIC}failedproducerequests_total",
            by="topic",
            labels='SELECT, topic!=""',
        ),
        _rate(
            "Rejected bytes",
            "Bps",
            f"{_TRAFFIC}bytesrejected_total",
            by="topic",
            labels='SELECT, topic!=""',
        ),
        _line(
            "Lag in records",
            "short",
            "topk(20, sum by (group) (kafka_consumergroup_lag_sum{CLUSTER}))",
            "{{group}}",
        ),
        _line(
            "Lag in seconds",
            "s",
            "topk(20, max by (group) (kafka_consumergroup_lag_seconds_max{CLUSTER}))",
            "{{group}}",
        ),
        _rate(
            "Rebalances of classic groups",
            "cps",
            "kafka_server_group_coordinator_metrics_group_completed_rebalance_total",
        ),
        _line(
            "Groups by protocol",
            "short",
            "sum by (protocol) (kafka_server_group_coordinator_metrics_group_count{SELECT})",
            "{{protocol}}",
        ),
        _line(
            "Oldest open transaction",
            "s",
            "headrace_replica_manager_oldest_transaction_age_seconds{SELECT}",
        ),
        _rate(
            "Committed transactions",
            "cps",
            "headrace_transaction_coordinator_metrics_transaction_commit_total",
        ),
    ),
)

CONTROLLERS = Dashboard(
    "controllers",
    "controllers",
    (
        _number("Leader of the quorum", "max(kafka_server_raft_metrics_current_leader{CLUSTER})"),
        _number("Voters", "max(kafka_server_raft_metrics_number_of_voters{CLUSTER})"),
        _number("Fenced nodes", f"max({_CONTROLLER}fencedbrokercount{{CLUSTER}})"),
        _line("Epoch of the quorum", "short", "kafka_server_raft_metrics_current_epoch{SELECT}"),
        _line("End of the metadata log", "short", "kafka_server_raft_metrics_log_end_offset{SELECT}"),
        _rate("Metadata records", "cps", "kafka_server_raft_metrics_append_records_total"),
        _quantiles("Commits", "kafka_server_raft_metrics_commit_latency_bucket"),
        _quantiles("Decisions", "kafka_controller_controllereventmanager_eventqueueprocessingtimems_bucket"),
        _quantiles(
            "Elections of partition leaders",
            "kafka_controller_controllerstats_leaderelectionrateandtimems_bucket",
        ),
        _line("Topics", "short", f"{_CONTROLLER}globaltopiccount{{SELECT}}"),
        _line("Partitions", "short", f"{_CONTROLLER}globalpartitioncount{{SELECT}}"),
        _line(
            "Leader skew",
            "short",
            "headrace_kafka_controller_leader_skew{SELECT}",
        ),
    ),
)

DASHBOARDS = (OVERVIEW, NODES, TOPICS, CONTROLLERS)
