"""The Java version, and the options that Java 17 needs."""

import pytest
from headrace.clients.spark.java import JAVA_OPTIONS, major_version, with_options


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('NOTE: Picked up JDK_JAVA_OPTIONS: -Dx=y\nopenjdk version "21" 2023-09-19 LTS', 21),
        ("no such thing", None),
    ],
)
def test_java_versions(shown: str, expected: int | None) -> None:
    """Old and new version formats."""
    assert major_version(shown) == expected


def test_java_options_are_appended_once() -> None:
    """Given options stay as they are."""
    assert with_options("") == JAVA_OPTIONS
    mine = '-Xmx1g "-Dname=two words" --add-opens java.base/x=y --add-opens java.base/z=y'
    assert with_options(mine) == f"{mine} {JAVA_OPTIONS}"
    assert with_options(with_options(mine)) == with_options(mine)
