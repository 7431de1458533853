"""A driver that is killed in the middle of a batch."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_topics import create, fill, stored

PROGRAM = Path(__file__).parent / "crashing.py"
sys.path.insert(0, str(PROGRAM.parent))

from crashing import copy_all  # noqa: E402 - found on that path


def test_driver_is_killed_after_its_tasks(spark: Any, cluster: Any, tmp_path: Path) -> None:
    """Their transactions are open and undecided: the next driver writes the same batch, once."""
    create(cluster, "crash", "crash-copy", partitions=1)
    fill(cluster, "crash", range(100))
    where = (cluster.bootstrap, "crash", str(tmp_path))
    command = [sys.executable, str(PROGRAM), *where]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert stored(cluster, "crash-copy") == list(range(40))
    assert stored(cluster, "crash-copy", "read_uncommitted") == list(range(80))
    fill(cluster, "crash", range(100, 110))
    done: list[int] = []
    copy_all(spark, *where, done)
    assert len(done) == 2
    assert stored(cluster, "crash-copy") == list(range(110))
