"""Carries out the moves of a plan, a few partitions at a time. Pure.

Nothing is stored: what is left to do is what a new plan says. So an interrupted run is continued by another
one, from any machine. Order: throttles before the moves that they limit. When a run ends in any way, no move
of it is in progress and its throttles are gone. What remains after its process was killed is settled by the
next run, before its plan, or by `headrace balance cancel`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import NodeState
from ...protocol.errors import (
    HeadraceError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from ..replication_throttle import clearing_nodes, clearing_topics, throttling
from .requests import (
    FAILURES,
    AlterConfigs,
    ElectPreferred,
    ListMoves,
    ReadNodes,
    ReadReplicas,
    ReadSizes,
    ReadThrottled,
    Reassign,
    Report,
    Sleep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...protocol.model import TopicPartition
    from .model import Move
    from .requests import Pace, Request, Steps

SIZES_EVERY = 4  # polls: sizes are asked from all nodes that copy
DELETED = "its topic was deleted"
MAX_NAMES = 10  # Bound: topics in a message


class MovesInProgressError(HeadraceError):
    """Moves of another run are in progress, and do not end."""


@dataclass(slots=True)
class Outcome:
    """Partitions by what became of their moves; `left`: not begun, with the reason in `stopped_by`.
    `is_clean`: no move is in progress, and no throttle is left."""

    done: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    left: list[TopicPartition] = field(default_factory=list)
    stopped_by: str | None = None
    is_clean: bool = False


class Execution:
    """One run. `advance` takes the number of further copied bytes."""

    def __init__(
        self,
        moves: Sequence[Move],
        pace: Pace,
        advance: Callable[[int], None],
        *,
        ignored: Iterable[int] = (),
    ) -> None:
        """`ignored`: nodes whose death does not stop the run, because they are being removed."""
        self._pace, self._advance = pace, advance
        self._waiting = deque(moves)
        self._active: dict[TopicPartition, Move] = {}
        self._throttled: set[str] = set()
        self._unsure: dict[TopicPartition, None] = {}
        self._has_uncancelled = False
        self._copied: dict[TopicPartition, int] = {}
        self._gone_since: dict[int, float] = {}
        self._down_before: frozenset[int] | None = None
        self._ignored = frozenset(ignored)
        self._polls = 0
        self.outcome = Outcome()

    def steps(self) -> Steps[Outcome]:
        """Move everything. Errors: those of requests that fail for longer than `patience_s`; an interrupt.
        After an error the outcome has what was done."""
        try:
            while self._waiting or self._active:
                yield from self._pace.insist(self._round)
                if self._active or self._waiting:
                    yield Sleep(self._pace.poll_s)
            yield from self._end()
        except GeneratorExit:  # the process has ended
            raise
        except BaseException as error:
            try:
                yield from self._end()
            except KeyboardInterrupt:
                if isinstance(error, KeyboardInterrupt):
                    raise  # the second one ends the cleanup
                yield from self._end()
                raise
            raise
        return self.outcome

    # --- rounds ------------------------------------------------------------------------------------------

    def _round(self) -> Steps[None]:
        yield from self._watch_nodes()
        if self._active:
            yield from self._poll()
        if not self.outcome.stopped_by and not self._gone_since:
            yield from self._begin()

    def _begin(self) -> Steps[None]:
        count = min(self._pace.max_concurrent - len(self._active), len(self._waiting))
        batch = [self._waiting[number] for number in range(count)]
        if batch:
            batch = yield from self._without_deleted(batch)
        if not batch:
            return
        copying = [move for move in batch if move.added]
        if copying and self._pace.throttle is not None:
            self._throttled |= {move.place.topic for move in copying}
            after = {move.place: move.after for move in copying}
            before = {move.place: move.before for move in copying}
            yield AlterConfigs(throttling(after, before, self._pace.throttle))
        # Order: active first, so that an interrupt between request and response cancels these moves.
        self._active |= {move.place: move for move in batch}
        for move in batch:
            self._waiting.remove(move)
        try:
            refused = yield Reassign({move.place: move.after for move in batch})
        except FAILURES:  # perhaps they have begun: to begin them again changes nothing
            for move in reversed(batch):
                self._unsure[move.place] = None
                del self._active[move.place]
                self._waiting.appendleft(move)
            raise
        for move in batch:
            self._unsure.pop(move.place, None)
        for place, error in refused.items():
            del self._active[place]
            self.outcome.failed[place] = str(error)

    def _without_deleted(self, batch: Sequence[Move]) -> Steps[list[Move]]:
        """The moves whose topics exist; the others have failed."""
        there = yield ReadReplicas(_topics(batch))
        for move in batch:
            if move.place not in there:
                self._waiting.remove(move)
                self.outcome.failed[move.place] = DELETED
        return [move for move in batch if move.place in there]

    def _poll(self) -> Steps[None]:
        ongoing = yield ListMoves(tuple(self._active))
        ended = [move for place, move in self._active.items() if place not in ongoing]
        self._polls += 1
        if self._polls % SIZES_EVERY == 0 or ended:
            yield from self._measure(ended)
        if ended:
            yield from self._conclude(ended)

    def _conclude(self, ended: Sequence[Move]) -> Steps[None]:
        """Check what ended, and give leadership to the preferred leaders."""
        there = yield ReadReplicas(_topics(ended))
        done = []
        for move in ended:
            found = there.get(move.place)
            if found is None:
                self.outcome.failed[move.place] = DELETED
            elif set(found) == set(move.after):
                done.append(move.place)
            elif set(found) != set(move.before) | set(move.after):
                self.outcome.failed[move.place] = "it was cancelled, or another command changed it"
            else:
                continue  # the node's metadata is older than the controller's
            del self._active[move.place]
        self.outcome.done += done
        if done:
            yield ElectPreferred(tuple(done))

    def _watch_nodes(self) -> Steps[None]:
        """Cancel moves to nodes that are gone for too long; begin no further ones while a node is gone."""
        nodes = yield ReadNodes()
        away = {n for n, state in nodes.items() if state is not NodeState.ACTIVE} - self._ignored
        if self._down_before is None:
            self._down_before = frozenset(away)
        now_s = self._pace.clock()
        news = away - self._down_before
        self._gone_since = {n: self._gone_since.get(n, now_s) for n in sorted(news)}
        lost = {n for n, since in self._gone_since.items() if now_s - since >= self._pace.patience_s}
        if not lost:
            return
        self.outcome.stopped_by = f"node {min(lost)} is fenced or shutting down"
        self.outcome.left += [move.place for move in self._waiting]
        self._waiting.clear()
        hopeless = [place for place, move in self._active.items() if lost.intersection(move.added)]
        if hopeless:
            yield from self._cancel(hopeless, self.outcome.stopped_by)

    def _measure(self, ended: Sequence[Move]) -> Steps[None]:
        copying = [move for move in self._active.values() if move.added]
        sizes = yield ReadSizes({move.place: move.added for move in copying})
        for move in copying:
            found = [min(size, move.size_bytes) for size in sizes.get(move.place, ())]
            copied = move.copied_bytes if move in ended else sum(found)
            further = copied - self._copied.get(move.place, 0)
            if further > 0:
                self._copied[move.place] = copied
                self._advance(further)

    # --- the end -----------------------------------------------------------------------------------------

    def _end(self) -> Steps[None]:
        """Cancel what is in progress after an error or interrupt, and remove the throttles. Idempotent: the
        first interrupt of a run begins it again."""
        self.outcome.left += [move.place for move in self._waiting]
        self._waiting.clear()
        if self._active:
            yield from self._cancel(list(self._active), "the run was interrupted")
        if self._unsure:
            yield from self._pace.insist(partial(_ask, Reassign(dict.fromkeys(self._unsure))))
        if self._throttled:
            yield from self._pace.insist(partial(clear_throttles, self._throttled))
        self.outcome.is_clean = not self._has_uncancelled

    def _cancel(self, places: list[TopicPartition], why: str) -> Steps[None]:
        refused = yield from self._pace.insist(partial(_ask, Reassign(dict.fromkeys(places))))
        ended = [place for place in places if isinstance(refused.get(place), NoReassignmentInProgressError)]
        topics = tuple(sorted({place.topic for place in ended}))
        there = (yield from self._pace.insist(partial(_ask, ReadReplicas(topics)))) if ended else {}
        for place in places:
            error, move = refused.get(place), self._active.pop(place)
            if place in ended and set(there.get(place, ())) == set(move.after):
                self.outcome.done.append(place)
            elif error is None or place in ended:  # cancelled now, or by a request without a response
                self.outcome.failed[place] = why
            else:  # the controller refuses while only added replicas are in sync
                self.outcome.failed[place] = f"{why}; not cancelled: {error}"
                self._has_uncancelled |= not isinstance(error, UnknownTopicOrPartitionError)


def settle(pace: Pace) -> Steps[None]:
    """What an earlier run left whose process was killed: wait for its moves, and remove its throttles. So at
    most one run moves partitions. Errors: MovesInProgressError if they make no progress for `patience_s`."""
    progress: tuple[int, int] | None = None
    until_s = 0.0
    while True:
        moves = yield from pace.insist(partial(_ask, ListMoves()))
        if not moves:
            break
        sizes = yield from pace.insist(partial(_ask, ReadSizes(moves)))
        now = len(moves), sum(sum(each) for each in sizes.values())
        if progress is None or now[0] != progress[0]:
            yield Report(
                f"waiting for {now[0]} moves that are in progress; `headrace balance cancel` cancels them"
            )
        if now != progress:
            progress, until_s = now, pace.clock() + pace.patience_s
        elif pace.clock() >= until_s:
            raise MovesInProgressError(
                f"{now[0]} moves in progress have copied nothing for {pace.patience_s:.0f} s, the first is"
                f" {min(moves)}; `headrace balance cancel` cancels them"
            )
        yield Sleep(pace.poll_s)
    names = yield from pace.insist(_clear_left_throttles)
    if names:
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        yield Report(
            f"removed the throttles that an interrupted run left on {', '.join(names[:MAX_NAMES])}{more}"
        )


def cancel_all(topics: frozenset[str] | None) -> Steps[tuple[int, dict[TopicPartition, BaseException]]]:
    """Cancel all reassignments in progress (of `topics`), and remove the throttles; those of nodes only if no
    other move is left. The number of moves, and the errors of those that were not cancelled."""
    moves = yield ListMoves()
    places = [place for place in moves if topics is None or place.topic in topics]
    refused: dict[TopicPartition, BaseException] = {}
    if places:
        refused = yield Reassign(dict.fromkeys(places))
    throttled = yield ReadThrottled()
    if len(places) == len(moves):
        yield from clear_throttles(throttled)
    elif topics is not None:
        yield AlterConfigs(clearing_topics(throttled & topics))
    return len(places), refused


def clear_throttles(topics: Iterable[str]) -> Steps[None]:
    """Remove the throttles of these topics, if they exist, and of all nodes. Order: the topics last, because
    the lists of their replicas show the next run what is left."""
    nodes = yield ReadNodes()
    there = yield ReadReplicas(tuple(sorted(topics)))
    yield AlterConfigs(clearing_nodes(nodes))
    yield AlterConfigs(clearing_topics({place.topic for place in there}))


def _clear_left_throttles() -> Steps[list[str]]:
    names = yield ReadThrottled()
    if names:
        yield from clear_throttles(names)
    return sorted(names)


def _ask(request: Request) -> Steps[Any]:
    return (yield request)


def _topics(moves: Iterable[Move]) -> tuple[str, ...]:
    return tuple(sorted({move.place.topic for move in moves}))
