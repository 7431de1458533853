"""JVM options that Spark needs from Java 17 on. Pure."""

from __future__ import annotations

import re

LEAST_VERSION = 17
# Packages that Spark, Arrow and RayDP access. With a shorter list RayDP's from_spark fails, then to_spark
# hangs.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.math",
    "java.net",
    "java.nio",
    "java.text",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
JAVA_OPTIONS = " ".join(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED)


def with_options(given: str) -> str:
    """The given options followed by missing ones of JAVA_OPTIONS."""
    return " ".join([*filter(None, [given]), *(each for each in JAVA_OPTIONS.split() if each not in given)])


def major_version(text: str) -> int | None:
    """The version in the output of `java -version`: 8 for 1.8.0_392, 17 for 17.0.9; None without one."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
