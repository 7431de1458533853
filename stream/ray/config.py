"""Config keys of the workers of an application on Ray."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import ConfigError
from ...runtime.config import MAX_INT, MAX_LONG, MINUTE, SECOND, Config, key

MOST_WORKERS = 10_000


@dataclass(frozen=True, kw_only=True)
class WorkersConfig(Config):
    """Keys of `stream.run` beside those of the application."""

    workers: int = key(
        "workers", 1, low=1, high=MOST_WORKERS, doc="Workers at the start: processes with one instance each."
    )
    cpus: float = key(
        "worker.cpus",
        0.01,
        low=0,
        high=MAX_INT,
        doc="Processors that Ray's scheduler reserves for a worker. A worker without enough of them waits.",
    )
    memory_bytes: int = key(
        "worker.memory.bytes",
        0,
        low=0,
        high=MAX_LONG,
        unit="bytes",
        doc="Memory that Ray's scheduler reserves for a worker.",
    )
    gpus: float = key(
        "worker.gpus",
        0.0,
        low=0,
        high=MAX_INT,
        doc="GPUs of a worker, for Arrow sections; Ray sets CUDA_VISIBLE_DEVICES.",
    )
    restart_backoff_ms: int = key(
        "worker.restart.backoff.ms",
        SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="Wait before the second restart of a worker that failed soon after its start; doubled with each"
        " further one. The first restart is at once.",
    )
    restart_backoff_max_ms: int = key(
        "worker.restart.backoff.max.ms", MINUTE, low=1, high=MAX_INT, unit="ms", doc="Longest such wait."
    )
    healthy_ms: int = key(
        "worker.healthy.ms",
        MINUTE,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A worker that ran for this time has no failures before it.",
    )
    max_failures: int = key(
        "worker.max.failures",
        8,
        low=0,
        high=MAX_INT,
        doc="The application ends with the error when each of its workers failed so many times in a row; 0:"
        " workers are restarted without end.",
    )
    stop_timeout_ms: int = key(
        "worker.stop.timeout.ms",
        30 * SECOND,
        low=1,
        high=MAX_INT,
        unit="ms",
        doc="A worker that is stopped has this time to commit and to close its stores; then it is killed.",
    )
    autoscale_min: int = key(
        "autoscale.min", 0, low=0, high=MOST_WORKERS, doc="Fewest workers; 0: no automatic scaling."
    )
    autoscale_max: int = key("autoscale.max", 0, low=0, high=MOST_WORKERS, doc="Most workers.")
    autoscale_lag: int = key(
        "autoscale.lag",
        10_000,
        low=1,
        high=MAX_LONG,
        doc="Records of lag per worker above which workers are added. Records younger than commit.interval.ms"
        " do not count.",
    )
    autoscale_interval_ms: int = key(
        "autoscale.interval.ms", 5 * SECOND, low=10, high=MAX_INT, unit="ms", doc="Time between measurements."
    )
    autoscale_up_ms: int = key(
        "autoscale.up.ms",
        10 * SECOND,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="How long the lag must be above the limit before workers are added, also after a change.",
    )
    autoscale_down_ms: int = key(
        "autoscale.down.ms",
        5 * MINUTE,
        low=0,
        high=MAX_INT,
        unit="ms",
        doc="How long the lag must be below a quarter of what one worker less may have before one"
        " is removed. Doubled, up to eight times, when workers are added again soon after.",
    )

    def __post_init__(self) -> None:
        """Validate the bounds. Errors: ConfigError."""
        super().__post_init__()
        if bool(self.autoscale_min) != bool(self.autoscale_max) or self.autoscale_min > self.autoscale_max:
            raise ConfigError(
                f"autoscale.min {self.autoscale_min} and autoscale.max {self.autoscale_max} are no bounds:"
                " give both, the lower one first"
            )

    @property
    def scales(self) -> bool:
        """Whether workers are added and removed by lag."""
        return self.autoscale_max > 0

    @property
    def first_target(self) -> int:
        """The number of workers at the start, within the bounds."""
        if not self.scales:
            return self.workers
        return min(max(self.workers, self.autoscale_min), self.autoscale_max)
