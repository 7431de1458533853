"""Features that distinguish robots from people, for each client of an access log: a topic to Parquet with Ray
Data.

Run: examples/pipelines/run.py features
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import access_log
import common
import headrace
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

if TYPE_CHECKING:
    from ray.data import Dataset

ROBOT = "bot|crawl|spider|slurp|feed|monitor|curl|wget|python|java/|okhttp|reader"  # in names of agents
NIGHT_UTC = range(6)


def hits_of(records: pa.Table) -> pa.Table:
    """A row of numbers for each request."""
    hits = list(access_log.hits_of(records["value"].to_pylist()))
    return pa.table(
        {
            "client": [hit.client for hit in hits],
            "second": pa.array([hit.at // 1000 for hit in hits], pa.int64()),
            "path": [hit.path for hit in hits],
            "size": pa.array([hit.size for hit in hits], pa.int64()),
            "page": [hit.is_page for hit in hits],
            "error": [hit.status >= 400 for hit in hits],
            "night": [hit.at // 3_600_000 % 24 in NIGHT_UTC for hit in hits],
            "agent": [hit.agent for hit in hits],
        }
    )


def features_of(hits: pa.Table) -> pa.Table:
    """One row of features from all hits of a client."""
    seconds = pc.min_max(hits["second"]).as_py()
    sums = {name: pc.sum(hits[name]).as_py() for name in ("page", "error", "night", "size")}
    return pa.table(
        {
            "client": [hits["client"][0].as_py()],
            "hits": [hits.num_rows],
            "pages": [sums["page"]],
            "paths": [pc.count_distinct(hits["path"]).as_py()],
            "errors": [sums["error"]],
            "at_night": [sums["night"]],
            "bytes": [sums["size"]],
            "seconds": [seconds["max"] - seconds["min"]],
            # the label: agents that declare themselves as robots
            "is_robot": [pc.any(pc.match_substring_regex(hits["agent"], ROBOT, ignore_case=True)).as_py()],
        }
    )


def features(bootstrap: str) -> Dataset:
    """The features of all clients; offsets are resolved when it is called."""
    lines = headrace.ray_data.read(common.LINES, bootstrap_servers=bootstrap, columns=["value"])
    hits = lines.map_batches(hits_of, batch_format="pyarrow")
    return hits.groupby("client").map_groups(features_of, batch_format="pyarrow")


def main() -> None:
    """Run the pipeline on a temporary cluster and Ray."""
    options = common.arguments(__doc__)
    folder = options.out / "features"
    shutil.rmtree(folder, ignore_errors=True)
    ray.init(include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with headrace.local() as cluster:
        common.create(cluster, common.LINES)
        common.send_log(cluster.bootstrap, options.lines)
        features(cluster.bootstrap).write_parquet(str(folder))
    found = pq.read_table(folder).sort_by([("hits", "descending"), ("client", "ascending")])
    columns = [name for name in found.column_names if name != "is_robot"]
    rows = [
        [*(row[name] for name in columns), "yes" if row["is_robot"] else ""] for row in found[:10].to_pylist()
    ]
    common.show(f"clients: {found.num_rows:,}, those with the most hits", [*columns, "robot"], rows)
    ray.shutdown()


if __name__ == "__main__":
    main()
