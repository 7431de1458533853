"""Stream processing on top of the clients: Kafka Streams for Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app_io import App as App
    from .dsl.builder import Builder as Builder
    from .dsl.kstream import BranchedKStream as BranchedKStream
    from .dsl.kstream import KStream as KStream
    from .dsl.ktable import CogroupedKStream as CogroupedKStream
    from .dsl.ktable import GlobalKTable as GlobalKTable
    from .dsl.ktable import KGroupedStream as KGroupedStream
    from .dsl.ktable import KGroupedTable as KGroupedTable
    from .dsl.ktable import KTable as KTable
    from .dsl.stores import Store as Store
    from .dsl.stream_joins import JoinSerdes as JoinSerdes
    from .dsl.suppressed import until_time_limit as until_time_limit
    from .dsl.suppressed import until_window_closes as until_window_closes
    from .dsl.windowed_serdes import session_windowed as session_windowed
    from .dsl.windowed_serdes import time_windowed as time_windowed
    from .dsl.windows import hopping as hopping
    from .dsl.windows import join_window as join_window
    from .dsl.windows import session as session
    from .dsl.windows import sliding as sliding
    from .dsl.windows import tumbling as tumbling
    from .dsl.windows import unlimited as unlimited
    from .processing import PunctuationType as PunctuationType
    from .processing import TaskId as TaskId
    from .records import Record as Record
    from .records import RecordContext as RecordContext
    from .records import ValueAndTimestamp as ValueAndTimestamp
    from .records import VersionedRecord as VersionedRecord
    from .records import Window as Window
    from .records import Windowed as Windowed
    from .state.builders import StoreBuilder as StoreBuilder
    from .state.builders import StoreKind as StoreKind
    from .testing.driver import TestDriver as TestDriver
    from .topology.errors import TopologyError as TopologyError
    from .topology.topology import Topology as Topology

# Name -> module. Loaded when first used: most programs need a few of them.
_MODULES = {
    "App": "app_io",
    "Builder": "dsl.builder",
    "KStream": "dsl.kstream",
    "BranchedKStream": "dsl.kstream",
    "KTable": "dsl.ktable",
    "GlobalKTable": "dsl.ktable",
    "KGroupedStream": "dsl.ktable",
    "KGroupedTable": "dsl.ktable",
    "CogroupedKStream": "dsl.ktable",
    "Store": "dsl.stores",
    "JoinSerdes": "dsl.stream_joins",
    "until_time_limit": "dsl.suppressed",
    "until_window_closes": "dsl.suppressed",
    "session_windowed": "dsl.windowed_serdes",
    "time_windowed": "dsl.windowed_serdes",
    "tumbling": "dsl.windows",
    "hopping": "dsl.windows",
    "sliding": "dsl.windows",
    "session": "dsl.windows",
    "unlimited": "dsl.windows",
    "join_window": "dsl.windows",
    "PunctuationType": "processing",
    "TaskId": "processing",
    "Record": "records",
    "RecordContext": "records",
    "ValueAndTimestamp": "records",
    "VersionedRecord": "records",
    "Window": "records",
    "Windowed": "records",
    "StoreBuilder": "state.builders",
    "StoreKind": "state.builders",
    "TestDriver": "testing.driver",
    "Topology": "topology.topology",
    "TopologyError": "topology.errors",
}

__all__ = sorted(_MODULES)  # one list, not two


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
