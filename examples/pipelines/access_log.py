"""A web server's access log in Apache's combined format: its location, its hits, sessions and pages, in plain
Python. The pipelines compute the same on Spark and Ray, and their tests compare."""

from __future__ import annotations

import os
import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PLACES = (
    ROOT.parent / "shared" / "data" / "apache_access.log",
    Path("/var/log/apache2/access.log"),
    Path("/var/log/httpd/access_log"),
    Path("/var/log/nginx/access.log"),
)
# Groups: client, time, path without its query, status, bytes, agent. Java and Python parse it alike.
PATTERN = (
    r'^(\S+) \S+ \S+ \[([^\]]+)\] "\S+ ([^ ?"]+)[^"]*" (\d{3}) (\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)")?'
)
TIME = "%d/%b/%Y:%H:%M:%S %z"
SPARK_TIME = "dd/MMM/yyyy:HH:mm:ss Z"
GAP_MINUTES = 30  # a later hit of a client starts a new session
TOP = 10
ASSETS = (".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".ico", ".svg", ".woff", ".ttf")
ASSET_PATTERN = r"(?i)\.(" + "|".join(name[1:] for name in ASSETS) + ")$"
_match = re.compile(PATTERN).match


class Hit(NamedTuple):
    """One request. `at` in ms since 1970; `size` in bytes, 0 where the log says "-"; `agent` may be ""."""

    client: str
    at: int
    path: str
    status: int
    size: int
    agent: str

    @property
    def is_page(self) -> bool:
        """Whether it is a successful request of a page, not of an image or style sheet."""
        return self.status == 200 and not self.path.lower().endswith(ASSETS)


class Session(NamedTuple):
    """Hits of a client with less than GAP_MINUTES between them. Times of the first and last hit in ms."""

    client: str
    start: int
    end: int
    hits: int
    size: int


def find_input(given: str | None = None) -> tuple[list[bytes], str]:
    """The lines of a log and their source: `given` or HEADRACE_ACCESS_LOG, else the first log found in
    PLACES, else a generated log, always the same. Errors: OSError for a given one."""
    wanted = given or os.environ.get("HEADRACE_ACCESS_LOG")
    if wanted:
        return Path(wanted).read_bytes().splitlines(), wanted
    for place in PLACES:
        try:
            lines = place.read_bytes().splitlines()
        except OSError:
            continue
        if any(parse(line) for line in lines[:100]):
            return lines, os.path.relpath(place)
    return list(drawn_lines()), "a generated log, as no access log was found (--input FILE reads yours)"


def parse(line: bytes) -> Hit | None:
    """The hit of a line; None unless it is a request in the combined or common format."""
    found = _match(line.decode(errors="replace"))
    if found is None:
        return None
    client, time, path, status, size, agent = found.groups()
    at = int(datetime.strptime(time, TIME).timestamp() * 1000)  # noqa: DTZ007  # TIME has its zone
    return Hit(client, at, path, int(status), 0 if size == "-" else int(size), agent or "")


def hits_of(lines: Iterable[bytes]) -> Iterator[Hit]:
    """The hits of all lines that are requests."""
    return (hit for hit in map(parse, lines) if hit is not None)


def sessions_of(hits: Iterable[Hit]) -> set[Session]:
    """Sessions in the order of time, whatever the order of the lines."""
    by_client: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_client[hit.client].append(hit)
    found = set()
    for client, its in by_client.items():
        run: list[Hit] = []
        for hit in sorted(its, key=lambda hit: hit.at):
            if run and hit.at - run[-1].at >= GAP_MINUTES * 60_000:
                found.add(_session(client, run))
                run = []
            run.append(hit)
        found.add(_session(client, run))
    return found


def _session(client: str, run: list[Hit]) -> Session:
    return Session(client, run[0].at, run[-1].at, len(run), sum(hit.size for hit in run))


def top_pages(hits: Iterable[Hit]) -> list[tuple[str, int]]:
    """The pages with the most visits; equal ones in the order of their names."""
    counts = Counter(hit.path for hit in hits if hit.is_page)
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:TOP]


def time_text(at_s: int) -> str:
    """A time in the format of the log."""
    return datetime.fromtimestamp(at_s, UTC).strftime(TIME)


def drawn_lines(count: int = 5000, seed: int = 1) -> Iterator[bytes]:
    """A generated log of two days: most clients request a few pages, robots many."""
    generator = random.Random(seed)
    pages = [f"/blog/{number}.html" for number in range(60)]
    weights = [1 / (number + 1) for number in range(60)]
    hits: list[tuple[float, str, str, str]] = []
    start_s = datetime(2015, 5, 17, tzinfo=UTC).timestamp()
    while len(hits) < count:
        client = f"10.0.{generator.randrange(4)}.{generator.randrange(250)}"
        is_robot = client.endswith("7")
        at_s = start_s + generator.random() * 2 * 86_400
        agent = "Robot/1.0 (+http://example.org/bot)" if is_robot else "Mozilla/5.0 (X11; Linux x86_64)"
        for page in generator.choices(pages, weights, k=generator.randrange(1, 40 if is_robot else 8)):
            hits.append((at_s, client, page, agent))
            if not is_robot:
                hits.append((at_s, client, "/style.css", agent))
            at_s += generator.expovariate(1 / 60)
    for at_s, client, path, agent in sorted(hits)[:count]:
        time = time_text(int(at_s))
        status, size = (404, "-") if generator.random() < 0.05 else (200, generator.randrange(300, 90_000))
        yield f'{client} - - [{time}] "GET {path} HTTP/1.1" {status} {size} "-" "{agent}"'.encode()
