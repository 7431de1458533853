"""Incremental fetch sessions of Kafka clients (KIP-227): requests and responses have only what changed. Pure.

A session belongs to the gateway: the node is asked for all its partitions each time, and unchanged ones are
left out of the response. Source: Kafka FetchSession.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from .entities import id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NO_SESSION, INITIAL_EPOCH, FINAL_EPOCH = 0, 0, -1
_MAX_EPOCH = 2**31 - 1
# Bound: partitions of all sessions; above it clients get no session and name all partitions each time.
MAX_PARTITIONS = 200_000
# A session that was not used for this long may be evicted by a new one.
EVICTION_MS = 120_000


@dataclass(slots=True, eq=False)
class _Topic:
    """A topic of a session as its client names it, and the last request and response of its partitions."""

    named: Any  # of the request
    partitions: dict[int, Any] = field(default_factory=dict)
    sent: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # high watermark and log start offset, as last sent


@dataclass(slots=True, eq=False)
class _Session:
    session_id: int
    has_ids: bool
    epoch: int  # expected in the next request
    last_used_ms: int
    topics: dict[Any, _Topic] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def merge(self, topics: Iterable[Any]) -> None:
        for topic in topics:
            known = self.topics.setdefault(_key(topic), _Topic(topic))
            for asked in topic.partitions:
                known.partitions[asked.partition] = asked

    def forget(self, topics: Iterable[Any]) -> None:
        for topic in topics:
            known = self.topics.get(_key(topic))
            if known is None:
                continue
            for number in topic.partitions:
                known.partitions.pop(number, None)
                known.sent.pop(number, None)
            if not known.partitions:
                del self.topics[_key(topic)]


class FetchContext:
    """One fetch: its partitions, and those of them that the response must have."""

    def __init__(self, sessions: FetchSessions, session: _Session | None, topics: list[Any]) -> None:
        self._sessions, self._session = sessions, session
        self._epoch = session.epoch if session is not None else FINAL_EPOCH
        self.topics = topics  # topic names, and kio's partitions

    def answer(self, topics: list[dict[str, Any]]) -> dict[str, Any]:
        """The response's session fields, and its topics and partitions."""
        session = self._session
        if session is None:
            return {"error_code": 0, "session_id": NO_SESSION, "responses": topics}
        if session.epoch != self._epoch or not self._sessions.has(session):
            return {"error_code": InvalidFetchSessionEpochError.code, "responses": ()}
        is_first = self._epoch == INITIAL_EPOCH + 1
        news = []
        for (_, known), result in zip(session.topics.items(), topics, strict=True):
            partitions = [each for each in result["partitions"] if _is_changed(known, each) or is_first]
            if partitions:
                news.append(result | {"partitions": partitions})
        return {"error_code": 0, "session_id": session.session_id, "responses": news}

    def throttled(self) -> dict[str, Any]:
        """The fields of a response without partitions; the session goes on, unless it begins with this."""
        session = self._session
        if session is not None and self._epoch == INITIAL_EPOCH + 1:
            self._sessions.close(session)
            session = None
        if session is None:
            return {"error_code": 0, "session_id": NO_SESSION, "responses": ()}
        if session.epoch != self._epoch or not self._sessions.has(session):
            return {"error_code": InvalidFetchSessionEpochError.code, "responses": ()}
        return {"error_code": 0, "session_id": session.session_id, "responses": ()}


class FetchSessions:
    """All sessions of a node. Bound: `slots`, and MAX_PARTITIONS in all."""

    def __init__(self, slots: Callable[[], int], new_id: Callable[[], int]) -> None:
        """`new_id` returns random numbers from 1 on, of 31 bits."""
        self._slots, self._new_id = slots, new_id
        self._sessions: dict[int, _Session] = {}  # the least recently used one first
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def has(self, session: _Session) -> bool:
        """Whether the session exists."""
        return self._sessions.get(session.session_id) is session

    def close(self, session: _Session) -> None:
        """Remove the session."""
        if self.has(session):
            self._drop(session.session_id)

    def begin(self, body: Any, now_ms: int) -> FetchContext:
        """The context of a request. Errors: FetchSessionIdNotFoundError, InvalidFetchSessionEpochError,
        FetchSessionTopicIdError."""
        session_id = getattr(body, "session_id", NO_SESSION)
        epoch = getattr(body, "session_epoch", FINAL_EPOCH)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._drop(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(self, None, list(body.topics))
            return self._create(body, now_ms)
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFoundError(f"unknown fetch session {session_id}")
        if epoch != session.epoch:
            raise InvalidFetchSessionEpochError(f"session epoch {epoch}, expected {session.epoch}")
        if any(hasattr(topic, "topic_id") != session.has_ids for topic in body.topics):
            raise FetchSessionTopicIdError("a session names its topics either by name or by id")
        return self._go_on(session, body, now_ms)

    def _create(self, body: Any, now_ms: int) -> FetchContext:
        """With a session if there is a free slot."""
        topics = list(body.topics)
        size = sum(len(topic.partitions) for topic in topics)
        if not size or not self._has_room(size, now_ms):
            return FetchContext(self, None, topics)
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = _Session(session_id, hasattr(topics[0], "topic_id"), INITIAL_EPOCH + 1, now_ms)
        session.merge(topics)
        self._sessions[session_id] = session
        self._partitions += session.size
        return FetchContext(self, session, _named(session))

    def _has_room(self, size: int, now_ms: int) -> bool:
        while len(self._sessions) >= self._slots() or self._partitions + size > MAX_PARTITIONS:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
                return False
            self._drop(oldest.session_id)
        return True

    def _go_on(self, session: _Session, body: Any, now_ms: int) -> FetchContext:
        self._partitions -= session.size
        session.merge(body.topics)
        session.forget(body.forgotten_topics_data)
        self._partitions += session.size
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else INITIAL_EPOCH + 1
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        if not session.topics or self._partitions > MAX_PARTITIONS:
            self._drop(session.session_id)
            return FetchContext(self, None, _named(session))
        return FetchContext(self, session, _named(session))

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.size


@dataclass(slots=True)
class _ByName:
    topic: str
    partitions: list[Any]


@dataclass(slots=True)
class _ById:
    topic_id: bytes
    partitions: list[Any]


def _named(session: _Session) -> list[Any]:
    """All topics and partitions of a session, as requests have them."""
    make: Any = _ById if session.has_ids else _ByName
    return [make(key, list(topic.partitions.values())) for key, topic in session.topics.items()]


def _key(topic: Any) -> Any:
    return id_of(topic.topic_id) if hasattr(topic, "topic_id") else topic.topic


def _is_changed(known: _Topic, result: dict[str, Any]) -> bool:
    """Whether the response must have the partition, which is remembered as sent. Errors are sent each time,
    and the first result after one."""
    number = result["partition_index"]
    now = result["high_watermark"], result.get("log_start_offset", -1)
    before, known.sent[number] = known.sent.get(number), now
    if result["error_code"]:
        known.sent.pop(number)
        return True
    has_more = "diverging_epoch" in result or result.get("preferred_read_replica", -1) >= 0
    return bool(len(result["records"])) or has_more or before != now
