"""Run the example of one client, or of all, on a temporary cluster of three nodes.

Run: python examples/kafka_clients/run.py go
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headrace

FOLDER = Path(__file__).parent


def main(clients: list[str]) -> None:
    """Each client has a script `run`, whose only argument is the bootstrap addresses."""
    for client in clients or sorted(script.parent.name for script in FOLDER.glob("*/run")):
        with headrace.local(nodes=3, listeners="PLAINTEXT://127.0.0.1:0") as cluster:
            subprocess.run([FOLDER / client / "run", cluster.kafka_bootstrap], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
