"""Keys of a node's log cleaner, with Kafka's names and defaults. Source: Kafka CleanerConfig.java."""

from __future__ import annotations

from dataclasses import dataclass

from ....protocol.errors import ConfigError
from ....runtime.config import KIB, MAX_INT, MAX_LONG, MIB, SECOND, Config, key

_MIN_MAP_BYTES = MIB  # of each thread, as Kafka has it


@dataclass(frozen=True, kw_only=True)
class CleanerConfig(Config):
    """Keys of the log cleaner."""

    log_cleaner_enable: bool = key("log.cleaner.enable", True, doc="Whether logs are compacted at all.")
    log_cleaner_threads: int = key(
        "log.cleaner.threads", 1, low=1, high=64, live=True, doc="Logs that are compacted at the same time."
    )
    log_cleaner_dedupe_buffer_size: int = key(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        low=MIB,
        unit="bytes",
        live=True,
        doc="Memory for the keys of the logs being compacted, shared by the threads: 24 bytes per key.",
    )
    log_cleaner_io_buffer_size: int = key(
        "log.cleaner.io.buffer.size",
        512 * KIB,
        low=2 * KIB,
        high=MAX_INT,
        unit="bytes",
        live=True,
        doc="Memory for reading and writing, shared by the threads; one batch has room anyway.",
    )
    log_cleaner_io_buffer_load_factor: float = key(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        low=0.01,
        high=0.99,
        live=True,
        doc="How full log.cleaner.dedupe.buffer.size may get: fuller takes more keys, and longer for each.",
    )
    log_cleaner_io_max_bytes_per_second: float = key(
        "log.cleaner.io.max.bytes.per.second",
        float(MAX_LONG),
        low=1,
        unit="bytes/s",
        live=True,
        doc="All threads together read and write at most this much.",
    )
    log_cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms",
        15 * SECOND,
        low=0,
        unit="ms",
        live=True,
        doc="How long to wait before looking again, when no log needs compaction.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.map_bytes < _MIN_MAP_BYTES:
            raise ConfigError(
                f"log.cleaner.dedupe.buffer.size {self.log_cleaner_dedupe_buffer_size} leaves less than"
                f" {_MIN_MAP_BYTES} bytes for each of {self.log_cleaner_threads} threads"
            )

    @property
    def map_bytes(self) -> int:
        """Memory for the keys of one log."""
        return self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads

    @property
    def buffer_bytes(self) -> int:
        """Bytes that one thread reads or writes at once."""
        return max(self.log_cleaner_io_buffer_size // self.log_cleaner_threads // 2, KIB)
