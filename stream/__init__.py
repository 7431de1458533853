"""Stream processing on top of the clients: Kafka Streams for Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app_io import App as App
    from .dsl.async_operators import Retry as Retry
    from .dsl.builder import Builder as Builder
    from .dsl.grouped import CogroupedKStream as CogroupedKStream
    from .dsl.grouped import KGroupedStream as KGroupedStream
    from .dsl.kstream import BranchedKStream as BranchedKStream
    from .dsl.kstream import KStream as KStream
    from .dsl.ktable import GlobalKTable as GlobalKTable
    from .dsl.ktable import KGroupedTable as KGroupedTable
    from .dsl.ktable import KTable as KTable
    from .dsl.stores import Store as Store
    from .dsl.stream_joins import JoinSerdes as JoinSerdes
    from .dsl.suppressed import until_time_limit as until_time_limit
    from .dsl.suppressed import until_window_closes as until_window_closes
    from .dsl.windowed_serdes import session_windowed as session_windowed
    from .dsl.windowed_serdes import time_windowed as time_windowed
    from .dsl.windows import CountWindows as CountWindows
    from .dsl.windows import count_windows as count_windows
    from .dsl.windows import hopping as hopping
    from .dsl.windows import join_window as join_window
    from .dsl.windows import session as session
    from .dsl.windows import sliding as sliding
    from .dsl.windows import tumbling as tumbling
    from .dsl.windows import unlimited as unlimited
    from .errors import IncompatibleTopologyError as IncompatibleTopologyError
    from .errors import WorkersError as WorkersError
    from .metrics.names import MetricName as MetricName
    from .processing import PunctuationType as PunctuationType
    from .processors.aggregate_functions import Aggregate as Aggregate
    from .processors.aggregate_functions import Collect as Collect
    from .processors.aggregate_functions import Count as Count
    from .processors.aggregate_functions import Distinct as Distinct
    from .processors.aggregate_functions import First as First
    from .processors.aggregate_functions import Last as Last
    from .processors.aggregate_functions import Max as Max
    from .processors.aggregate_functions import Mean as Mean
    from .processors.aggregate_functions import Min as Min
    from .processors.aggregate_functions import Sum as Sum
    from .processors.aggregate_functions import TopN as TopN
    from .query.client_io import Queries as Queries
    from .query.connect_io import connect_queries as connect_queries
    from .query.errors import InvalidStorePartitionError as InvalidStorePartitionError
    from .query.errors import QueryError as QueryError
    from .query.errors import QueryTimeoutError as QueryTimeoutError
    from .query.errors import ResultTooLargeError as ResultTooLargeError
    from .query.errors import StoreMigratedError as StoreMigratedError
    from .query.errors import StoreUnavailableError as StoreUnavailableError
    from .query.errors import UnknownStoreError as UnknownStoreError
    from .query.errors import WrongStoreKindError as WrongStoreKindError
    from .query.hosts import HostInfo as HostInfo
    from .query.hosts import HostMetadata as HostMetadata
    from .query.hosts import KeyQueryMetadata as KeyQueryMetadata
    from .query.http_io import http_app as http_app
    from .query.http_server_io import HttpServer as HttpServer
    from .query.http_server_io import serve_http as serve_http
    from .query.position import Position as Position
    from .query.queries import CountQuery as CountQuery
    from .query.queries import FailureReason as FailureReason
    from .query.queries import KeyQuery as KeyQuery
    from .query.queries import KeysQuery as KeysQuery
    from .query.queries import MultiVersionedKeyQuery as MultiVersionedKeyQuery
    from .query.queries import PrefixQuery as PrefixQuery
    from .query.queries import QueryResult as QueryResult
    from .query.queries import RangeQuery as RangeQuery
    from .query.queries import StateQueryResult as StateQueryResult
    from .query.queries import TimestampedKeyQuery as TimestampedKeyQuery
    from .query.queries import TimestampedRangeQuery as TimestampedRangeQuery
    from .query.queries import VersionedKeyQuery as VersionedKeyQuery
    from .query.queries import WindowKeyQuery as WindowKeyQuery
    from .query.queries import WindowRangeQuery as WindowRangeQuery
    from .query.views_io import ReadOnlyKeyValueStore as ReadOnlyKeyValueStore
    from .query.views_io import ReadOnlySessionStore as ReadOnlySessionStore
    from .query.views_io import ReadOnlyVersionedStore as ReadOnlyVersionedStore
    from .query.views_io import ReadOnlyWindowStore as ReadOnlyWindowStore
    from .ray.run_io import connect_workers as connect_workers
    from .ray.run_io import run as run
    from .ray.workers_io import Workers as Workers
    from .records import AggregationWithHeaders as AggregationWithHeaders
    from .records import LateRecord as LateRecord
    from .records import Record as Record
    from .records import RecordContext as RecordContext
    from .records import Row as Row
    from .records import TaskId as TaskId
    from .records import ValueAndTimestamp as ValueAndTimestamp
    from .records import ValueTimestampHeaders as ValueTimestampHeaders
    from .records import VersionedRecord as VersionedRecord
    from .records import Window as Window
    from .records import Windowed as Windowed
    from .state.builders import StoreBuilder as StoreBuilder
    from .state.formats.rows import rows as rows
    from .state.store_spec import StoreKind as StoreKind
    from .state.store_spec import StoreSpec as StoreSpec
    from .state.suppliers import BytesStore as BytesStore
    from .state.suppliers import KeyValueBytesStore as KeyValueBytesStore
    from .state.suppliers import SessionBytesStore as SessionBytesStore
    from .state.suppliers import VersionedBytesStore as VersionedBytesStore
    from .state.suppliers import WindowBytesStore as WindowBytesStore
    from .task.handlers import Decision as Decision
    from .task.handlers import ErrorContext as ErrorContext
    from .task.handlers import LogAndContinue as LogAndContinue
    from .task.handlers import LogAndFail as LogAndFail
    from .task.handlers import ProducedRecord as ProducedRecord
    from .task.handlers import Response as Response
    from .task.timestamps import FailOnInvalidTimestamp as FailOnInvalidTimestamp
    from .task.timestamps import LogAndSkipOnInvalidTimestamp as LogAndSkipOnInvalidTimestamp
    from .task.timestamps import UsePartitionTimeOnInvalidTimestamp as UsePartitionTimeOnInvalidTimestamp
    from .task.timestamps import WallclockTimestampExtractor as WallclockTimestampExtractor
    from .testing.driver import TestDriver as TestDriver
    from .testing.mock_context import MockProcessorContext as MockProcessorContext
    from .topology.errors import TopologyError as TopologyError
    from .topology.topology import Topology as Topology
    from .watch.application import ApplicationView as ApplicationView
    from .worker.instance_io import AppInstance as AppInstance
    from .worker.listeners_io import RestoreListener as RestoreListener
    from .worker.listeners_io import SuspendReason as SuspendReason
    from .worker.metadata import LagInfo as LagInfo
    from .worker.metadata import TaskMetadata as TaskMetadata
    from .worker.metadata import ThreadMetadata as ThreadMetadata
    from .worker.metadata import ThreadState as ThreadState
    from .worker.states import InstanceState as InstanceState

# Name -> module. Loaded when first used: most programs need a few of them.
_MODULES = {
    "App": "app_io",
    "Builder": "dsl.builder",
    "KStream": "dsl.kstream",
    "BranchedKStream": "dsl.kstream",
    "KTable": "dsl.ktable",
    "GlobalKTable": "dsl.ktable",
    "KGroupedStream": "dsl.grouped",
    "KGroupedTable": "dsl.ktable",
    "CogroupedKStream": "dsl.grouped",
    "Store": "dsl.stores",
    "JoinSerdes": "dsl.stream_joins",
    "until_time_limit": "dsl.suppressed",
    "until_window_closes": "dsl.suppressed",
    "session_windowed": "dsl.windowed_serdes",
    "time_windowed": "dsl.windowed_serdes",
    "tumbling": "dsl.windows",
    "CountWindows": "dsl.windows",
    "count_windows": "dsl.windows",
    "hopping": "dsl.windows",
    "sliding": "dsl.windows",
    "session": "dsl.windows",
    "unlimited": "dsl.windows",
    "join_window": "dsl.windows",
    "PunctuationType": "processing",
    **dict.fromkeys(
        ("Aggregate", "Collect", "Count", "Distinct", "First", "Last", "Max", "Mean", "Min", "Sum", "TopN"),
        "processors.aggregate_functions",
    ),
    "LateRecord": "records",
    "Record": "records",
    "Retry": "dsl.async_operators",
    "RecordContext": "records",
    "Row": "records",
    "TaskId": "records",
    "ValueAndTimestamp": "records",
    "ValueTimestampHeaders": "records",
    "AggregationWithHeaders": "records",
    "VersionedRecord": "records",
    "Window": "records",
    "Windowed": "records",
    "StoreBuilder": "state.builders",
    **dict.fromkeys(("StoreKind", "StoreSpec"), "state.store_spec"),
    **dict.fromkeys(
        ("BytesStore", "KeyValueBytesStore", "SessionBytesStore", "VersionedBytesStore", "WindowBytesStore"),
        "state.suppliers",
    ),
    "rows": "state.formats.rows",
    **dict.fromkeys(
        ("Decision", "ErrorContext", "LogAndContinue", "LogAndFail", "ProducedRecord", "Response"),
        "task.handlers",
    ),
    **dict.fromkeys(
        (
            "FailOnInvalidTimestamp",
            "LogAndSkipOnInvalidTimestamp",
            "UsePartitionTimeOnInvalidTimestamp",
            "WallclockTimestampExtractor",
        ),
        "task.timestamps",
    ),
    **dict.fromkeys(
        (
            *("InvalidStorePartitionError", "QueryError", "QueryTimeoutError", "ResultTooLargeError"),
            *("StoreMigratedError", "StoreUnavailableError", "UnknownStoreError", "WrongStoreKindError"),
        ),
        "query.errors",
    ),
    **dict.fromkeys(
        (
            *("CountQuery", "KeyQuery", "KeysQuery", "MultiVersionedKeyQuery", "PrefixQuery", "RangeQuery"),
            *("TimestampedKeyQuery", "TimestampedRangeQuery", "VersionedKeyQuery", "WindowKeyQuery"),
            *("WindowRangeQuery", "FailureReason", "QueryResult", "StateQueryResult"),
        ),
        "query.queries",
    ),
    "Position": "query.position",
    "Queries": "query.client_io",
    "connect_queries": "query.connect_io",
    "http_app": "query.http_io",
    **dict.fromkeys(("HttpServer", "serve_http"), "query.http_server_io"),
    **dict.fromkeys(("HostInfo", "HostMetadata", "KeyQueryMetadata"), "query.hosts"),
    **dict.fromkeys(
        (
            *("ReadOnlyKeyValueStore", "ReadOnlySessionStore", "ReadOnlyVersionedStore"),
            "ReadOnlyWindowStore",
        ),
        "query.views_io",
    ),
    **dict.fromkeys(("run", "connect_workers"), "ray.run_io"),
    "Workers": "ray.workers_io",
    "WorkersError": "errors",
    "TestDriver": "testing.driver",
    "MockProcessorContext": "testing.mock_context",
    "Topology": "topology.topology",
    "TopologyError": "topology.errors",
    "ApplicationView": "watch.application",
    "IncompatibleTopologyError": "errors",
    "MetricName": "metrics.names",
    "AppInstance": "worker.instance_io",
    "InstanceState": "worker.states",
    **dict.fromkeys(("RestoreListener", "SuspendReason"), "worker.listeners_io"),
    **dict.fromkeys(("LagInfo", "TaskMetadata", "ThreadMetadata", "ThreadState"), "worker.metadata"),
}

__all__ = sorted(_MODULES)  # one list, not two


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
