"""Words counted exactly once by four workers on Ray, of which one is killed while its state is queried.

Without HEADRACE_BOOTSTRAP it runs `headrace up` for a cluster and a Ray of its own, and `headrace down`.

Run: python examples/streams/workers_on_ray.py
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import headrace
import ray
from headrace import int64, stream, utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 8
PATIENCE_S = 300.0
WORDS = [f"word-{number}" for number in range(50)]


def app() -> stream.App:
    """Counts words. Standby tasks have a second copy of each store, which takes over."""
    made = stream.App("counted-on-ray", key=utf8, value=utf8, guarantee="exactly_once_v2", standby_replicas=1)
    words = made.stream("demo-lines").flat_map_values(str.split).group_by(lambda _key, word: word)
    words.count(store="counts").to_stream().to("demo-counts", value=int64)
    return made


class Sender(threading.Thread):
    """Sends lines of words in the background, and counts them."""

    def __init__(self, words: int) -> None:
        super().__init__(daemon=True)
        self.sent: Counter[str] = Counter()
        self._words = words

    def run(self) -> None:
        with headrace.Producer(value=utf8) as producer:
            for number in range(self._words // 10):
                line = [WORDS[(number * 7 + each * each) % len(WORDS)] for each in range(10)]
                producer.send("demo-lines", " ".join(line), key=b"%d" % number).result()
                self.sent.update(line)


def counts(queries: stream.Queries) -> dict[str, int]:
    """The state of all workers."""
    return {word: queries.get("counts", word, timeout_s=PATIENCE_S) or 0 for word in WORDS}


def main() -> None:
    """Prints what was counted, and what the longest query took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--words", type=int, default=20_000)
    arguments = parser.parse_args()
    with cluster():
        with headrace.Admin() as admin:
            topics = (headrace.NewTopic(name, PARTITIONS) for name in ("demo-lines", "demo-counts"))
            admin.create_topics(*topics).raise_for_errors()
        sender = Sender(arguments.words)
        sender.start()
        with stream.run(app(), workers=arguments.workers) as workers, workers.queries() as queries:
            workers.wait_until_running(PATIENCE_S)
            print(f"{arguments.workers} workers run")
            victim = workers.status()["workers"][0]["instance"]
            os.kill(victim["pid"], signal.SIGKILL)  # a program on another machine cannot do that
            longest_s, ends_at = 0.0, time.monotonic() + PATIENCE_S
            while sender.is_alive() or counts(queries) != dict(sender.sent):
                began = time.monotonic()
                queries.get("counts", WORDS[0], timeout_s=PATIENCE_S)
                longest_s = max(longest_s, time.monotonic() - began)
                if began > ends_at:
                    raise TimeoutError(f"counted {counts(queries)}, but sent {dict(sender.sent)}")
            workers.wait_until_running(PATIENCE_S)
            status = workers.status()
        restarts = [worker["restarts"] for worker in status["workers"]]
        print(f"one was killed and replaced: {restarts[0] == 1}, others: {sum(restarts[1:])}")
        print(f"the longest query took {longest_s:.1f} s")
        print(f"{sum(sender.sent.values()):,} words are counted exactly once")


@contextmanager
def cluster() -> Iterator[None]:
    """The one of HEADRACE_BOOTSTRAP, or a new one. A member that is silent for 6 s loses its tasks."""
    if os.environ.get("HEADRACE_BOOTSTRAP"):
        yield
        return
    command = [sys.executable, "-m", "headrace"]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HEADRACE_HOME"] = home
        timeouts = ("session.timeout.ms=6000", "heartbeat.interval.ms=1000")
        options = [part for each in timeouts for part in ("-X", f"group.streams.{each}")]
        subprocess.run([*command, "up", "--nodes", "3", "--ray-address", "local", *options], check=True)
        try:
            yield
        finally:
            ray.shutdown()  # this program is a driver of the Ray that ends now
            subprocess.run([*command, "down", "--delete-data", "--yes"], check=True)


if __name__ == "__main__":
    main()
