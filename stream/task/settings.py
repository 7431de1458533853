"""What the tasks of an application are configured with: config keys, and objects that no key can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .handlers import (
    DeserializationHandler,
    LogAndFail,
    ProcessingHandler,
    ProductionHandler,
    RetryOrFail,
)
from .timestamps import FailOnInvalidTimestamp

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Serdes that are None: each node must bring its own. `user` is for the application's processors.

    The two intervals are wall-clock times between searches for closed windows and for records of outer joins.
    """

    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = field(default_factory=FailOnInvalidTimestamp)
    deserialization_handler: DeserializationHandler = field(default_factory=LogAndFail)
    processing_handler: ProcessingHandler = field(default_factory=LogAndFail)
    production_handler: ProductionHandler = field(default_factory=RetryOrFail)
    handles_global_failures: bool = False
    max_task_idle_ms: int = 0
    buffered_records: int = 1000
    window_emit_interval_ms: int = 1000
    outer_join_emit_interval_ms: int = 1000
    user: Mapping[str, Any] = field(default_factory=dict)
