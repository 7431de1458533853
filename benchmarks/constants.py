"""Names and sizes that cells, groups and reports share; metrics are keys of results.json. Pure."""

from __future__ import annotations

HEADRACE, KAFKA, BARE = "headrace", "kafka", "bare"
CURVE = "headrace-curve"  # headrace whose native clients use CURVE
PARTITIONS = 6
NODES = 3  # of a cluster with three replicas
QUICK_SHARE = 0.5

RATE, MB = "records_per_s", "mb_per_s"
CPU_PER_GB, CLIENT_CPU_PER_GB = "server_cpu_s_per_gb", "client_cpu_s_per_gb"
E2E_P50, E2E_P99, ACK_P50, ACK_P99 = "e2e_p50_ms", "e2e_p99_ms", "ack_p50_ms", "ack_p99_ms"
FAN_OUT_MB, COLD_MB, DISK_MB = "fan_out_mb_per_s", "cold_mb_per_s", "disk_mb_per_s"
CLEANED_MB, DELETED_SEGMENTS, MAP_BYTES = "cleaned_mb_per_s", "deleted_segments", "map_bytes_per_key"
GAP, DUPLICATES, IN_SYNC = "gap_ms", "doubled", "in_sync"
CONNECTIONS, CONNECTION_KB = "connections_per_s", "kb_per_connection"
VISIT_P99, VISIT_CPU = "visit_p99_ms", "cpu_ms_per_visit"
TRANSACTIONS, COMMITS, STORED = "transactions_per_s", "commits_per_s", "stored_commits_per_s"
JOIN, LEAVE, REJOIN = "join_ms", "leave_ms", "rejoin_ms"
AUTHORIZED_US, LOOK_UP_US, LOAD_S = "authorized_us", "rule_look_up_us", "rules_load_s"
RSS_MB, FDS, THREADS = "rss_mb", "fds", "threads"

# every cell whose servers run reports these of their processes
OF_SERVERS = frozenset({RSS_MB, FDS, THREADS})
OF_RATES = frozenset({RATE, MB, CPU_PER_GB, CLIENT_CPU_PER_GB})
OF_ACKS = frozenset({ACK_P50, ACK_P99})
OF_LATENCY = OF_ACKS | {E2E_P50, E2E_P99, "e2e_p99_9_ms", "e2e_max_ms"}
