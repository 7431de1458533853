"""Writes a conversation: one line for each message that arrives and each change of state, in virtual time.

A message that repeats the words of the last one of its kind on its link is left out until the next heading:
fetches that find nothing new, metadata that has not changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from world import World

KINDS = {"c": "controller", "n": "node"}


class Message(NamedTuple):
    """A message that arrives. `body` is the KafkaError of a request that failed; `request` is the body of the
    request that a response answers, None for a request."""

    source: str
    target: str
    body: Any
    frames: Sequence[bytes]
    request: Any


class Fact(NamedTuple):
    """Something that may change: which thing, its value, and the sentence that says so."""

    key: Hashable
    value: Any
    sentence: str


def place(name: str) -> str:
    """The name of a process as a trace has it: `n1` is node 1, `c1` is controller 1."""
    return f"{KINDS[name[0]]} {name[1:]}" if name[1:].isdigit() and name[0] in KINDS else name


def kafka_name(error: KafkaError) -> str:
    """NOT_LEADER_OR_FOLLOWER of NotLeaderOrFollowerError."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).upper()


class Recorder:
    """The lines of one conversation.

    `words` has the text of each class of message that is shown; an empty text leaves the message out.
    `watches` are asked for facts after each event.
    """

    def __init__(
        self,
        world: World,
        words: dict[type, Callable[[Message], str]],
        watches: Sequence[Callable[[], Iterator[Fact]]],
    ) -> None:
        self._world, self._words, self._watches = world, words, watches
        self._said: dict[tuple[str, str, type], str] = {}
        self._known: dict[Hashable, Any] = {}
        self.lines: list[str] = []
        self.is_on = True
        world.on_message = self._message

    def heading(self, text: str) -> None:
        """The next part of the conversation: what the script does."""
        self.lines += ["", f"--- {text}"]
        self._said.clear()

    def look(self) -> None:
        """Write down the facts that have changed."""
        for watch in self._watches:
            for key, value, sentence in watch():
                if self._known.get(key) != value:
                    self._known[key] = value
                    self._write(f"    {sentence}")

    def _message(self, source: str, target: str, body: Any, frames: Sequence[bytes], request: Any) -> None:
        kind = type(request) if isinstance(body, KafkaError) else type(body)
        words = self._words.get(kind)
        if words is None:
            return
        if isinstance(body, KafkaError):
            text = f"{kind.__name__.removesuffix('Request')} failed: {kafka_name(body)}"
        else:
            text = words(Message(source, target, body, frames, request))
        if text and self._said.get((source, target, kind)) != text:
            self._said[source, target, kind] = text
            self._write(f"{place(source)} -> {place(target)}: {text}")

    def _write(self, text: str) -> None:
        if self.is_on:
            self.lines.append(f"{self._world.now_ms:6} ms  {text}")
