"""What docs/PIPELINE.md shows of PySpark 4 works as it is printed there."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "PIPELINE.md"


def test_program_of_the_page_runs(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In the session of the tests, which is not stopped."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (program,) = (block for block in blocks if "register(spark)" in block)
    exec(program.replace("    spark.stop()\n", ""), {})
    assert re.search(r"\|user \d\|", capsys.readouterr().out)
