"""The process that answers queries is killed: no answer is older than one before, and none is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import counting_app
import headrace
import pytest
from headrace import NewTopic
from headrace.runtime.ports_io import reserve_ports
from headrace.services.local_io import LocalCluster, local
from stream_processes import StreamProcesses
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = [f"word-{number}" for number in range(20)]
PATIENCE_S = 120.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """One node in this process."""
    with local(
        group_streams_heartbeat_interval_ms=500,
        group_streams_session_timeout_ms=6000,
        offsets_topic_num_partitions=3,
        transaction_state_log_num_partitions=3,
    ) as running:
        topics = (NewTopic(counting_app.SOURCE, 3), NewTopic(counting_app.TARGET, 3))
        running.admin().create_topics(*topics).raise_for_errors()
        yield running


class Asker(threading.Thread):
    """Asks for all words in turn until `ends`; `seen` has the last count of each, `wrong` what went back."""

    def __init__(self, queries: Any) -> None:
        super().__init__()
        self._queries = queries
        self.ends = threading.Event()
        self.seen: dict[str, int] = dict.fromkeys(WORDS, 0)
        self.wrong: list[tuple[str, int, int]] = []
        self.rounds = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Ask."""
        try:
            while not self.ends.is_set():
                for word in WORDS:
                    count = self._queries.get("per-line", word, timeout_s=PATIENCE_S) or 0
                    if count < self.seen[word]:
                        self.wrong.append((word, self.seen[word], count))
                    self.seen[word] = count
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error


def test_answers_never_go_back_when_their_owner_is_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    """Committed counts, while records come: the next owner answers once it has restored all of them."""
    environment = {counting_app.GUARANTEE: "exactly_once_v2"}
    processes = StreamProcesses(cluster.bootstrap, tmp_path, "counting_app", environment)
    for number, port in enumerate(reserve_ports(2), 1):
        processes.start(number, application_server=f"127.0.0.1:{port}")
    sent = 0
    try:
        with (
            counting_app.app().queries(cluster.bootstrap, timeout_s=PATIENCE_S) as queries,
            headrace.Producer(cluster.bootstrap) as producer,
        ):

            def both_answer() -> bool:
                return len([host for host in queries.hosts().values() if host.active]) == 2

            def send() -> None:
                nonlocal sent
                for word in WORDS:
                    producer.send(counting_app.SOURCE, word.encode())
                sent += 1

            wait_for(lambda: _answers(both_answer), "both processes have tasks", PATIENCE_S)
            for _ in range(20):
                send()
            producer.flush()
            wait_for(
                lambda: all(queries.get("per-line", word) == sent for word in WORDS), "counted", PATIENCE_S
            )
            asker = Asker(queries)
            asker.start()
            try:
                wait_for(lambda: asker.rounds > 1, "answers of both", PATIENCE_S)
                processes.kill(1)
                rounds = asker.rounds

                def has_answers() -> bool:
                    send()
                    return asker.error is not None or asker.rounds > rounds + 3

                wait_for(has_answers, "answers of the one that is left", PATIENCE_S)
                producer.flush()

                def is_complete() -> bool:
                    return asker.error is not None or set(asker.seen.values()) == {sent}

                wait_for(is_complete, "all counted", PATIENCE_S)
            finally:
                asker.ends.set()
                asker.join()
            assert asker.error is None
            assert asker.wrong == []
            assert set(asker.seen.values()) == {sent}
    finally:
        processes.end()


def _answers(condition: Any) -> bool:
    """Whether it holds; False while the group is not there."""
    try:
        return bool(condition())
    except headrace.HeadraceError:
        return False
