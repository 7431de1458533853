"""Interactive queries: what the instances of a streams application ask each other. Headrace's own.

Keys and values are the bytes of the stores; the client of the query has their serdes.
"""

from __future__ import annotations

import msgspec

from .streams_status import InstanceStatus


class InputOffset(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The last offset of an input partition that a store has seen, or has to have seen."""

    topic: str
    partition: int
    offset: int


class StreamsQueryRequest(msgspec.Struct, array_like=True, frozen=True):
    """One query of one store; with an empty `query` the stores are described.

    `query` is the name of a class of stream/query/queries.py, `arguments` are its fields in their order;
    "Points" asks for the values of the keys in `arguments`, "Locate" for the partition of the key in
    `arguments`, "Status" for the state of the instance, with one argument: for how many ms it samples the
    operators. `partitions` empty: all that are there; with "Points" the partition of each key.
    `max_lag`: standbys and restoring stores answer if they lack no more records; negative: only active tasks.
    `isolation` empty: that of the application. `resume`: the key at which a range goes on.
    """

    application_id: str
    store: str = ""
    query: str = ""
    arguments: tuple[bytes | int | bool | None, ...] = ()
    partitions: tuple[int, ...] = ()
    bound: tuple[InputOffset, ...] = ()
    max_lag: int = -1
    isolation: str = ""
    resume: bytes | None = None


class StoreDescription(msgspec.Struct, array_like=True, frozen=True):
    """A store of the topology: its kind, and the input topics of its tasks with their numbers of partitions.

    `sub_topology` -1: a global store. `locates`: keys are distributed by a function of the application, which
    has to be asked for the partition of a key.
    """

    name: str
    kind: str
    sub_topology: int
    topics: tuple[tuple[str, int], ...] = ()
    locates: bool = False


class StreamsQueryPartition(msgspec.Struct, array_like=True, frozen=True):
    """The result of one partition (-1: of a global store). `failure`: a FailureReason, empty for a result.

    `rows`: one row with one column for a single value, none for no value; for ranges the columns of the key,
    then the value; for several keys one row with one column each. `has_more`: there are more
    rows than one response may have.
    """

    partition: int
    failure: str = ""
    message: str = ""
    position: tuple[InputOffset, ...] = ()
    rows: tuple[tuple[bytes | int | None, ...], ...] = ()
    has_more: bool = False


class StreamsQueryResponse(msgspec.Struct, array_like=True, frozen=True):
    """`failure`: why there is no result at all: NOT_RUNNING, UNKNOWN_STORE, UNKNOWN_APPLICATION or INVALID.

    `retriable`: the same request may succeed a moment later.
    """

    failure: str = ""
    message: str = ""
    retriable: bool = False
    results: tuple[StreamsQueryPartition, ...] = ()
    stores: tuple[StoreDescription, ...] = ()
    status: InstanceStatus | None = None
