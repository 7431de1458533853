"""`make oracle-streams`: Kafka Streams and headrace.stream side by side."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "fakes")]

from streams.main_io import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
