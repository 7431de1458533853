"""Counters of the node core; the shell publishes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class NodeCounters:
    """Totals since the node started."""

    produced_bytes: int = 0
    produced_records: int = 0
    produced_batches: int = 0
    fetched_bytes: int = 0
    failed_produce_entries: int = 0
    failed_verifications: int = 0  # of transactional batches
    failed_fetch_entries: int = 0
    refused_requests: int = 0
    replicated_in_bytes: int = 0
    replicated_out_bytes: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0

    def produced(self, size_bytes: int, record_count: int) -> None:
        """One batch was appended."""
        self.produced_bytes += size_bytes
        self.produced_records += record_count
        self.produced_batches += 1

    def to_mapping(self) -> dict[str, int]:
        """All totals by name."""
        return asdict(self)
