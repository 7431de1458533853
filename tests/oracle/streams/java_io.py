"""Kafka Streams as the oracle: the program of java/ in one JVM that runs case after case."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

from headrace.benchmarks.servers import kafka_io

from .cases import Case, Result

JAVA = Path(__file__).parent / "java"
JVM = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
MEMORY = Path("/dev/shm")


def classpath() -> str:
    """The jars of Kafka Streams and its test driver, downloaded once, and our program, compiled once."""
    jars = kafka_io.download(
        f"streams-{kafka_io.VERSION}", JAVA / "pom.xml", {"kafka.version": kafka_io.VERSION}
    )
    classes = kafka_io.compiled("oracle-streams", JAVA.glob("*.java"), jars)
    return f"{classes}:{jars}"


class JavaStreams:
    """The JVM, started by the first case."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.mkdtemp(prefix="headrace-streams-", dir=MEMORY if MEMORY.is_dir() else None)

    def result(self, case: Case) -> Result:
        """What Kafka Streams gives for a case. Errors: KafkaError when the JVM ended."""
        return next(self.results([case]))

    def results(self, cases: Sequence[Case]) -> Iterator[Result]:
        """The same for many: the JVM works on the next one while the caller looks at a result."""
        process = self._running()

        def write() -> None:
            assert process.stdin is not None
            for case in cases:
                process.stdin.write(json.dumps(case) + "\n")
                process.stdin.flush()

        writer = Thread(target=write, daemon=True)
        writer.start()
        for case in cases:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise kafka_io.KafkaError(f"the JVM ended in case {case.get('seed')}")
            result: dict[str, Any] = json.loads(line)
            yield result
        writer.join()

    def close(self) -> None:
        """End the JVM and remove its files."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = ["java", *JVM, "-cp", classpath(), "Oracle", self._folder]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        return self._process
