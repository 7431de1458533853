"""Signed-in users: sessions on the server, bounded in number and time, and tokens for forms."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..web.credentials import Credentials

COOKIE = "headrace_console"
MOST_SESSIONS = 500  # Bound: the least recently used session ends
IDLE_S = 30 * 60.0
LONGEST_S = 12 * 3600.0
MOST_FAILURES = 5  # of a user name within a minute
FAILURES_S = 60.0
MOST_NAMES = 1_000  # Bound: of user names with failures


@dataclass(slots=True)
class _Session:
    credentials: Credentials
    began_at: float
    used_at: float


class Sessions:
    """Sessions by their secret id. Credentials stay in memory until the session ends."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._sessions: dict[str, _Session] = {}
        self._failures: dict[str, list[float]] = {}

    def begin(self, credentials: Credentials) -> str:
        """A new session; its id is for the cookie only."""
        now = self._now_s()
        for session_id in [each for each, session in self._sessions.items() if self._is_over(session, now)]:
            del self._sessions[session_id]
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session_id = self.new_id()
        self._sessions[session_id] = _Session(credentials, now, now)
        return session_id

    def credentials(self, session_id: str) -> Credentials | None:
        """The user of a session; None if it is over."""
        session = self._sessions.pop(session_id, None)
        now = self._now_s()
        if session is None or self._is_over(session, now):
            return None
        session.used_at = now
        self._sessions[session_id] = session  # the most recently used one is the last
        return session.credentials

    def end(self, session_id: str) -> Credentials | None:
        """End a session; returns its user if no other session has the same one."""
        session = self._sessions.pop(session_id, None)
        if session is None or any(
            each.credentials == session.credentials for each in self._sessions.values()
        ):
            return None
        return session.credentials

    @staticmethod
    def new_id() -> str:
        """A random id, of 43 characters."""
        return secrets.token_urlsafe(32)

    def token(self, session_id: str) -> str:
        """The token that forms of this session carry."""
        return hmac.new(self._key, session_id.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session_id: str, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.token(session_id), token.encode("ascii", "replace").decode())

    def check_attempt(self, name: str) -> None:
        """Errors: Problem 429 after too many wrong passwords of a user."""
        recent = self._recent(name)
        if len(recent) >= MOST_FAILURES:
            wait_s = FAILURES_S - (self._now_s() - recent[0])
            raise Problem(
                429,
                f"{len(recent)} wrong passwords for this user: try again in {wait_s:.0f} s",
                headers={"retry-after": f"{max(wait_s, 1):.0f}"},
            )

    def failed(self, name: str) -> None:
        """A wrong password."""
        recent = self._recent(name)
        self._failures.pop(name, None)
        while len(self._failures) >= MOST_NAMES:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = [*recent, self._now_s()]

    def _recent(self, name: str) -> list[float]:
        oldest = self._now_s() - FAILURES_S
        return [each for each in self._failures.get(name, ()) if each > oldest]

    @staticmethod
    def _is_over(session: _Session, now: float) -> bool:
        return now - session.used_at > IDLE_S or now - session.began_at > LONGEST_S
