"""`make oracle`: Apache Kafka and headrace side by side; see tests/oracle/beside."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fakes")]

from beside.main_io import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
