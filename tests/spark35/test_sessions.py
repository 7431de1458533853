"""The pipeline of examples/pipelines on Spark 3.5, beside the same in plain Python."""

import sys
from pathlib import Path
from typing import Any

import headrace

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "pipelines"))

import access_log
import common
import sessions_raydp
from markers import until_markers_are_written

LINES = 1000


def test_sessions_and_pages_equal_those_of_plain_python(spark: Any, cluster: headrace.LocalCluster) -> None:
    """The second run finds both batches committed, and adds nothing."""
    lines = access_log.find_input()[0][:LINES]
    common.create(cluster, common.LINES, common.SESSIONS, common.PAGES)
    hits = list(access_log.hits_of(lines))
    assert common.send_log(cluster.bootstrap, [*lines, b"no request"]) == len(hits) > LINES // 2
    assert sessions_raydp.run(spark, cluster.bootstrap) == [True, True]
    assert sessions_raydp.run(spark, cluster.bootstrap) == [False, False]
    until_markers_are_written(cluster)
    sessions, pages = sessions_raydp.found(spark, cluster.bootstrap)
    assert sorted(sessions) == sorted(access_log.sessions_of(hits))
    assert pages == access_log.top_pages(hits)
