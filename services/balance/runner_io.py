"""Carries out the moves of a plan, a few partitions at a time.

Nothing is stored: what is left to do is what a new plan says. So an interrupted run is continued by another
one, from any machine. Order: throttles before the moves that they limit. When a run ends in any way, no move
of it is in progress and its throttles are gone; after a kill of the process, `headrace balance cancel` cleans
up.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import ElectionType, NodeState, Resource
from ...protocol.errors import HeadraceError, NoReassignmentInProgressError, UnknownTopicOrPartitionError
from ...runtime.waiting_io import let_pass
from ..network_status import pieces
from ..replication_throttle import FETCHING, SENDING, clear_throttle, set_throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...clients.admin.admin_types import Results
    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from .model import Move

POLL_S = 0.5
SIZES_EVERY = 4  # polls: sizes are asked from all nodes that copy
CLEAR_TRIES = 5
DELETED = "its topic was deleted"
MEASURE_S = 4.0  # sizes are only for the progress bar: a node that does not answer must not stop the run


@dataclass(frozen=True, slots=True)
class Pace:
    """`throttle`: bytes per second that each node sends and fetches, None for no limit. `patience_s`: how
    long a run waits for a node or a controller that does not answer."""

    throttle: int | None = None
    max_concurrent: int = 10
    patience_s: float = 60.0
    poll_s: float = POLL_S


@dataclass(slots=True)
class Outcome:
    """Partitions by what became of their moves; `left`: not begun, with the reason in `stopped_by`."""

    done: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    left: list[TopicPartition] = field(default_factory=list)
    stopped_by: str | None = None


class Runner:
    """One run. `advance` takes the number of further copied bytes."""

    def __init__(
        self,
        admin: Admin,
        moves: Sequence[Move],
        pace: Pace,
        advance: Callable[[int], None],
        *,
        ignored: Iterable[int] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = let_pass,
    ) -> None:
        """`ignored`: nodes whose death does not stop the run, because they are being removed."""
        self._admin, self._pace, self._advance = admin, pace, advance
        self._waiting = deque(moves)
        self._active: dict[TopicPartition, Move] = {}
        self._throttled: set[str] = set()
        self._unsure: set[TopicPartition] = set()
        self._copied: dict[TopicPartition, int] = {}
        self._gone_since: dict[int, float] = {}
        self._down_before: frozenset[int] | None = None
        self._failing_since: float | None = None
        self._ignored = frozenset(ignored)
        self._clock, self._sleep, self._polls = clock, sleep, 0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Move everything. Errors: those of the client, if it fails for longer than `patience_s`;
        KeyboardInterrupt. After an error the outcome has what was done."""
        try:
            while self._waiting or self._active:
                self._try(self._step)
                if self._active or self._waiting:
                    self._sleep(self._pace.poll_s)
        finally:
            self._end()
        return self.outcome

    # --- steps -------------------------------------------------------------------------------------------

    def _try(self, step: Callable[[], None]) -> None:
        """A step that may fail for a while: the controller changes, a node dies."""
        try:
            step()
            self._failing_since = None
        except (HeadraceError, ExceptionGroup):
            now = self._clock()
            if self._failing_since is None:
                self._failing_since = now
            if now - self._failing_since >= self._pace.patience_s:
                raise

    def _step(self) -> None:
        self._watch_nodes()
        if self._active:
            self._poll()
        if not self.outcome.stopped_by and not self._gone_since:
            self._begin()

    def _begin(self) -> None:
        count = min(self._pace.max_concurrent - len(self._active), len(self._waiting))
        batch = [self._waiting[number] for number in range(count)]
        batch = self._without_deleted(batch) if batch else []
        if not batch:
            return
        if self._pace.throttle is not None:
            copying = [move for move in batch if move.added]
            if copying:
                self._throttled |= {move.place.topic for move in copying}
                set_throttle(
                    self._admin,
                    {move.place: move.after for move in copying},
                    {move.place: move.before for move in copying},
                    self._pace.throttle,
                )
        # Order: active first, so that an interrupt between request and response cancels these moves.
        self._active |= {move.place: move for move in batch}
        for move in batch:
            self._waiting.remove(move)
        try:
            results = self._admin.alter_partition_reassignments({move.place: move.after for move in batch})
        except HeadraceError:  # perhaps they have begun: to begin them again changes nothing
            self._unsure |= {move.place for move in batch}
            for move in reversed(batch):
                del self._active[move.place]
                self._waiting.appendleft(move)
            raise
        self._unsure -= {move.place for move in batch}
        for place, error in results.errors.items():
            del self._active[place]
            self.outcome.failed[place] = str(error)

    def _without_deleted(self, batch: Sequence[Move]) -> list[Move]:
        """The moves whose topics exist; the others have failed."""
        there = self._existing({move.place.topic for move in batch})
        for move in batch:
            if move.place.topic not in there:
                self._waiting.remove(move)
                self.outcome.failed[move.place] = DELETED
        return [move for move in batch if move.place.topic in there]

    def _existing(self, topics: Iterable[str]) -> set[str]:
        found = self._admin.describe_topics(*sorted(topics))
        return {
            name for name in found if not isinstance(found.errors.get(name), UnknownTopicOrPartitionError)
        }

    def _poll(self) -> None:
        ongoing = self._admin.list_partition_reassignments(list(self._active))
        ended = [move for place, move in self._active.items() if place not in ongoing]
        self._polls += 1
        if self._polls % SIZES_EVERY == 0 or ended:
            self._measure(ended)
        if ended:
            self._conclude(ended)

    def _conclude(self, ended: Sequence[Move]) -> None:
        """Check what ended, and give leadership to the preferred leaders."""
        topics = self._admin.describe_topics(*sorted({move.place.topic for move in ended}))
        done = []
        for move in ended:
            name, number = move.place
            found = None if name in topics.errors else topics[name].partitions[number].replicas
            if found is None:
                self.outcome.failed[move.place] = DELETED
            elif set(found) == set(move.after):
                done.append(move.place)
            elif set(found) != set(move.before) | set(move.after):
                self.outcome.failed[move.place] = "it was cancelled or changed by someone else"
            else:
                continue  # the node's metadata is older than the controller's
            del self._active[move.place]
        self.outcome.done += done
        if done:
            # Not elected now (not in sync, or draining): the controller's own balance does it later.
            self._admin.elect_leaders(ElectionType.PREFERRED, done)

    def _watch_nodes(self) -> None:
        """Cancel moves to nodes that are gone for too long; begin no further ones while a node is gone."""
        nodes = self._admin.describe_cluster(include_fenced=True).nodes
        away = {node.node_id for node in nodes if node.state is not NodeState.ACTIVE} - self._ignored
        if self._down_before is None:
            self._down_before = frozenset(away)
        now = self._clock()
        news = away - self._down_before
        self._gone_since = {n: self._gone_since.get(n, now) for n in sorted(news)}
        lost = {n for n, since in self._gone_since.items() if now - since >= self._pace.patience_s}
        if not lost:
            return
        self.outcome.stopped_by = f"node {min(lost)} is fenced or shutting down"
        self.outcome.left += [move.place for move in self._waiting]
        self._waiting.clear()
        hopeless = [place for place, move in self._active.items() if lost.intersection(move.added)]
        if hopeless:
            self._cancel(hopeless, self.outcome.stopped_by)

    def _measure(self, ended: Sequence[Move]) -> None:
        copying = [move for move in self._active.values() if move.added]
        nodes = sorted({node_id for move in copying for node_id in move.added})
        found = self._admin.describe_replicas(
            nodes, partitions=[move.place for move in copying], timeout=MEASURE_S
        )
        for move in copying:
            sizes = [
                min(replica.size_bytes, move.size_bytes)
                for node_id in move.added
                if node_id not in found.errors
                and (replica := found[node_id].replicas.get(move.place)) is not None
            ]
            self._progress(move.place, move.copied_bytes if move in ended else sum(sizes))

    def _progress(self, place: TopicPartition, copied: int) -> None:
        further = copied - self._copied.get(place, 0)
        if further > 0:
            self._copied[place] = copied
            self._advance(further)

    # --- the end -----------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Cancel what is in progress after an error or interrupt, and remove the throttles."""
        self.outcome.left += [move.place for move in self._waiting]
        self._waiting.clear()
        if self._active:
            self._cancel(list(self._active), "the run was interrupted")
        if self._unsure:
            self._persist(lambda: self._admin.alter_partition_reassignments(dict.fromkeys(self._unsure)))
        if self._throttled:
            self._persist(lambda: clear_throttle(self._admin, sorted(self._existing(self._throttled))))

    def _cancel(self, places: list[TopicPartition], why: str) -> None:
        results = self._persist(
            lambda: self._admin.alter_partition_reassignments(dict.fromkeys(places)).errors
        )
        for place in places:
            error = results.get(place)
            if isinstance(error, NoReassignmentInProgressError):
                self.outcome.done.append(place)  # it was complete
            else:
                self.outcome.failed[place] = why if error is None else f"{why}; not cancelled: {error}"
            del self._active[place]

    def _persist(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, tried again while a controller or node does not answer."""
        for _ in range(CLEAR_TRIES - 1):
            try:
                return work()
            except (HeadraceError, ExceptionGroup):
                self._sleep(self._pace.poll_s)
        return work()


def cancel_all(admin: Admin, topics: frozenset[str] | None) -> Results[TopicPartition, None]:
    """Cancel all reassignments in progress (of `topics`), and remove all throttles of replication."""
    ongoing = [
        place for place in admin.list_partition_reassignments() if topics is None or place.topic in topics
    ]
    results = admin.alter_partition_reassignments(dict.fromkeys(ongoing))
    names = [item.name for item in admin.list_topics(internal=True)]
    throttled: set[str] = {place.topic for place in ongoing}
    for piece in pieces(names):
        configs = admin.describe_configs(*(Resource.topic(name) for name in piece))
        throttled |= {
            resource.name
            for resource in configs
            if resource not in configs.errors
            and any(
                configs[resource][name].value for name in (SENDING, FETCHING) if name in configs[resource]
            )
        }
    clear_throttle(admin, sorted(throttled & set(names)))
    return results
