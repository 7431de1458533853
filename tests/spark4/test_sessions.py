"""The streaming pipeline of examples/pipelines on PySpark 4, beside the same in plain Python."""

import sys
from pathlib import Path
from typing import Any

import headrace

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "pipelines"))

import access_log
import common
import sessions_stream
from markers import until_markers_are_written

LINES = 1500


def test_sessions_continue_over_a_restart(spark: Any, cluster: headrace.LocalCluster, tmp_path: Path) -> None:
    lines = access_log.find_input()[0][:LINES]
    common.create(cluster, common.LINES, common.SESSIONS)
    closing = [*lines, sessions_stream.end_of_log(lines)]
    for part in (closing[: LINES // 2], closing[LINES // 2 :]):
        common.send_log(cluster.bootstrap, part)
        sessions_stream.run(spark, cluster.bootstrap, str(tmp_path))
    until_markers_are_written(cluster)
    sessions, pages = sessions_stream.found(spark, cluster.bootstrap)
    hits = list(access_log.hits_of(lines))
    assert sorted(sessions) == sorted(access_log.sessions_of(hits))
    assert pages == access_log.top_pages(hits)
