"""The pipeline of examples/pipelines on Ray Data and the pictures of all three; those on Spark have their
tests in the environments of Spark."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PIPELINES = Path(__file__).parents[2] / "examples" / "pipelines"
sys.path.insert(0, str(PIPELINES))

import access_log  # noqa: E402 - found on that path

LINES = 2000
PNG = b"\x89PNG"


def plotted(folder: Path, name: str) -> None:
    """As run.py has it drawn: in a process of its own."""
    draw = f"import sys, pathlib, plots; plots.{name}(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", draw, str(folder)], cwd=PIPELINES, check=True, timeout=500)
    assert (folder / f"{name}.png").read_bytes().startswith(PNG)


def test_sessions_end_where_a_client_pauses() -> None:
    """The oracle of the tests on Spark: lines out of order, and a pause of exactly the gap."""
    gap = access_log.GAP_MINUTES * 60_000
    hits = [access_log.Hit("a", at, "/", 200, 1, "") for at in (2 * gap - 1, 0, gap - 1)]
    assert access_log.sessions_of(hits) == {
        access_log.Session("a", 0, gap - 1, 2, 2),
        access_log.Session("a", 2 * gap - 1, 2 * gap - 1, 1, 1),
    }


def test_generated_log_has_one_request_per_line() -> None:
    """It replaces a missing log, and is always the same."""
    lines = list(access_log.drawn_lines(500))
    assert len(list(access_log.hits_of(lines))) == 500
    assert lines == list(access_log.drawn_lines(500))
    assert access_log.parse(b"no request") is None


def test_sessions_are_plotted(tmp_path: Path) -> None:
    """From the results of the pipelines on Spark."""
    hits = list(access_log.hits_of(access_log.drawn_lines(500)))
    found = {"sessions": sorted(access_log.sessions_of(hits)), "pages": access_log.top_pages(hits)}
    (tmp_path / "sessions.json").write_text(json.dumps({"title": "drawn", **found}))
    plotted(tmp_path, "sessions")


@pytest.mark.ray
def test_features_equal_those_of_plain_python(tmp_path: Path, ray_address: str) -> None:
    """Per client, aggregated by Ray."""
    lines = access_log.find_input()[0][:LINES]
    (tmp_path / "access.log").write_bytes(b"\n".join(lines))
    command = [sys.executable, str(PIPELINES / "features_ray.py"), "--out", str(tmp_path)]
    subprocess.run(
        [*command, "--input", str(tmp_path / "access.log")],
        env={**os.environ, "RAY_ADDRESS": ray_address},
        check=True,
        timeout=500,
        stdout=subprocess.DEVNULL,
    )
    by_client = defaultdict(list)
    for hit in access_log.hits_of(lines):
        by_client[hit.client].append(hit)
    wanted = {
        client: {
            "hits": len(hits),
            "pages": sum(hit.is_page for hit in hits),
            "paths": len({hit.path for hit in hits}),
            "errors": sum(hit.status >= 400 for hit in hits),
            "bytes": sum(hit.size for hit in hits),
            "seconds": (max(hit.at for hit in hits) - min(hit.at for hit in hits)) // 1000,
        }
        for client, hits in by_client.items()
    }
    rows = pq.read_table(tmp_path / "features").to_pylist()
    assert len(rows) == len(wanted)
    assert {row["client"]: {name: row[name] for name in wanted[row["client"]]} for row in rows} == wanted
    assert any(row["is_robot"] for row in rows)
    plotted(tmp_path, "features")
