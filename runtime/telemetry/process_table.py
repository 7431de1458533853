"""The metrics that all servers have: of the process, its event loop and its connections. Pure data."""

from __future__ import annotations

from .metric import counter, gauge

_PROCESS = ("process", "")
CPU = counter(
    *_PROCESS,
    "cpu",
    "CPU time of the process.",
    unit="s",
    prometheus_name="process_cpu_seconds_total",
    otel_name="process.cpu.time",
)
RESIDENT = gauge(
    *_PROCESS,
    "resident",
    "Resident memory of the process.",
    unit="By",
    prometheus_name="process_resident_memory_bytes",
    otel_name="process.memory.usage",
)
VIRTUAL = gauge(
    *_PROCESS,
    "virtual",
    "Virtual memory of the process.",
    unit="By",
    prometheus_name="process_virtual_memory_bytes",
    otel_name="process.memory.virtual",
)
OPEN_FILES = gauge(
    *_PROCESS,
    "fds",
    "Open file descriptors.",
    unit="{file_descriptor}",
    prometheus_name="process_open_fds",
    otel_name="process.open_file_descriptor.count",
)
MAX_FILES = gauge(
    *_PROCESS,
    "max-fds",
    "Limit of open file descriptors.",
    unit="{file_descriptor}",
    prometheus_name="process_max_fds",
)
STARTED = gauge(
    *_PROCESS,
    "start",
    "Start of the process, in seconds since 1970.",
    unit="s",
    prometheus_name="process_start_time_seconds",
)
THREADS = gauge(
    *_PROCESS,
    "threads",
    "Threads of the process.",
    unit="{thread}",
    prometheus_name="process_threads",
    otel_name="process.thread.count",
)
GC_COLLECTIONS = counter(
    "python",
    "gc",
    "collections",
    "Garbage collections.",
    labels=("generation",),
    prometheus_name="python_gc_collections_total",
    otel_name="cpython.gc.collections",
)
GC_COLLECTED = counter(
    "python",
    "gc",
    "objects_collected",
    "Objects that garbage collections freed.",
    labels=("generation",),
    prometheus_name="python_gc_objects_collected_total",
    otel_name="cpython.gc.collected_objects",
)

BUILD_INFO = gauge(
    "headrace",
    "",
    "build_info",
    "1; the labels say what this server is.",
    labels=("version", "python", "role", "server_id", "cluster_id"),
)
LOOP_IDLE = gauge(
    "kafka.server",
    "KafkaRequestHandlerPool",
    "RequestHandlerAvgIdlePercent",
    "Part of the last minute, 0 to 1, in which the thread of the event loop used no CPU. In Kafka: of the"
    " request handlers.",
)
LOOP_STALL = gauge(
    "headrace",
    "EventLoop",
    "LongestStallSeconds",
    "Longest pause of the event loop in the last minute.",
    unit="s",
)
LOOP_STALLS = counter(
    "headrace", "EventLoop", "StallsPerSec", "Pauses of the event loop of half a second or more."
)
SNAPSHOT_AGE = gauge(
    "headrace",
    "Metrics",
    "AgeSeconds",
    "Age of these values: a server whose loop hangs shows its last ones.",
    unit="s",
)
GATHER_SECONDS = gauge(
    "headrace", "Metrics", "GatherSeconds", "Time in which the last values were gathered.", unit="s"
)

_SOCKETS = ("kafka.server", "socket-server-metrics")
CONNECTIONS = gauge(
    *_SOCKETS, "connection-count", "Open connections.", labels=("listener",), unit="{connection}"
)
ACCEPTED = counter(*_SOCKETS, "connection-creation-total", "Accepted connections.", labels=("listener",))
REFUSED = counter(
    "headrace",
    "socket-server-metrics",
    "connection-refused-total",
    "Connections that were refused or closed: above a limit, or of another protocol.",
    labels=("listener",),
)
AUTHENTICATED = counter(
    *_SOCKETS, "successful-authentication-total", "Authentications.", labels=("listener",)
)
AUTHENTICATIONS_FAILED = counter(
    *_SOCKETS, "failed-authentication-total", "Failed authentications.", labels=("listener",)
)
HANDSHAKES_FAILED = counter(
    "headrace",
    "socket-server-metrics",
    "failed-handshake-total",
    "TLS or ZMTP handshakes that failed.",
    labels=("listener",),
)
CERTIFICATE_EXPIRY = gauge(
    "headrace",
    "tls",
    "certificate-not-after-seconds",
    "When the certificate in use expires, in seconds since 1970.",
    labels=("listener",),
    unit="s",
)
THROTTLED = counter(
    "headrace",
    "ClientQuotaManager",
    "throttled-total",
    "Responses with a throttle time, by quota.",
    labels=("quota",),
)
QUOTA_METERS = gauge(
    "headrace", "ClientQuotaManager", "meters", "Clients with a quota whose rate is measured."
)

SERVER_METRICS = tuple(each for name, each in sorted(globals().items()) if name.isupper() and name[0] != "_")
