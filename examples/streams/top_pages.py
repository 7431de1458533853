"""Sessions of an access log, and the pages that most sessions have seen.

The log: --input FILE or HEADRACE_ACCESS_LOG; otherwise one of this machine, or a generated one. The result is
compared with a computation in plain Python.

Run: python examples/streams/top_pages.py
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import common
from headrace import bytes_, int64, json, stream, utf8

sys.path.append(str(Path(__file__).parents[1] / "pipelines"))
import access_log  # reads and parses logs

# A session ends half an hour after its last hit; records of a gap of exactly that time are in one session.
GAP = timedelta(minutes=access_log.GAP_MINUTES, milliseconds=-1)
# Lines of a log are written when a response ends: hits come out of order. Later ones than this are dropped.
LATE = timedelta(hours=1)

Session = dict[str, Any]


def no_session() -> Session:
    """What each session begins with."""
    return {"hits": 0, "size": 0, "pages": []}


def with_hit(_client: str, hit: access_log.Hit, session: Session) -> Session:
    """The session after one more hit."""
    pages = {*session["pages"], hit.path} if hit.is_page else session["pages"]
    return {"hits": session["hits"] + 1, "size": session["size"] + hit.size, "pages": sorted(pages)}


def merged(_client: str, left: Session, right: Session) -> Session:
    """A hit between two sessions makes one of them."""
    pages = sorted({*left["pages"], *right["pages"]})
    return {"hits": left["hits"] + right["hits"], "size": left["size"] + right["size"], "pages": pages}


def app() -> stream.App:
    """The application."""
    made = stream.App("top-pages", key=utf8, value=json, commit_interval_ms=100)
    sessions = (
        made.stream("access-log", value=bytes_)  # the lines; their key is the client
        .flat_map_values(lambda line: [hit] if (hit := access_log.parse(line)) else [])
        .group_by_key()
        .windowed_by(stream.session(GAP, grace=LATE))
        .aggregate(no_session, with_hit, merge=merged, store=stream.Store("sessions", value=json))
        # One record for each session when it is over, instead of one for each hit.
        .suppress(stream.until_window_closes())
        .to_stream()
    )
    sessions.to("sessions", key=stream.session_windowed(utf8))
    pages = sessions.flat_map(lambda _, session: [(page, "") for page in session["pages"]])
    pages.group_by_key(value=utf8).count(store="sessions-by-page").to_stream().to("top-pages", value=int64)
    return made


def send(cluster: Any, lines: list[bytes]) -> None:
    """Each line with the time of its request. Time goes on with records: a line two days later in each
    partition ends all sessions before it."""
    hits = [(line, hit) for line in lines if (hit := access_log.parse(line))]
    end_ms = max(hit.at for _, hit in hits) + 2 * 86_400_000
    last = f'end - - [{access_log.time_text(end_ms // 1000)}] "GET / HTTP/1.1" 200 0 "-" "-"'.encode()
    with cluster.producer(key=utf8) as producer:
        for line, hit in hits:
            producer.send("access-log", line, key=hit.client, timestamp=hit.at)
        for partition in range(common.PARTITIONS):
            producer.send("access-log", last, key="end", partition=partition, timestamp=end_ms)


def main() -> None:
    """The largest sessions and the top pages of a log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", help="an access log in Apache's combined format")
    lines, source = access_log.find_input(parser.parse_args().input)
    print(f"{len(lines):,} lines of {source}")
    hits = list(access_log.hits_of(lines))
    expected = access_log.sessions_of(hits)

    with common.cluster("access-log", "sessions", "top-pages") as cluster:
        send(cluster, lines)
        with common.run(app(), cluster) as running:
            found = common.read(
                running,
                "sessions",
                lambda records: len(records) == len(expected),
                key=stream.session_windowed(utf8),
                value=json,
            )
            visits = Counter(page for record in found for page in record.value["pages"])
            counted: dict[str, int] = {}

            def is_complete(records: list[Any]) -> bool:
                counted.update({record.key: record.value for record in records})
                return counted == visits

            common.read(running, "top-pages", is_complete, key=utf8, value=int64)

    for record in sorted(found, key=lambda record: -record.value["hits"])[:5]:
        minutes = (record.key.window.end - record.key.window.start) // 60_000
        print(f"{record.key.key:15} {record.value['hits']:5} hits in {minutes:4} minutes")
    for page, count in visits.most_common(access_log.TOP):
        print(f"{count:5} sessions saw {page}")
    sessions = {
        access_log.Session(key.key, key.window.start, key.window.end, value["hits"], value["size"])
        for key, value in ((record.key, record.value) for record in found)
    }
    print(f"as computed in plain Python: {sessions == expected}")


if __name__ == "__main__":
    main()
