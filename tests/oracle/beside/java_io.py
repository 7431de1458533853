"""Kafka's Java tools, consecutively in one JVM."""

import base64
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from headrace.benchmarks.servers import kafka_io

SOURCES = (
    *(Path(__file__).parent / "java").glob("*.java"),
    Path(__file__).parents[3] / "examples" / "kafka_clients" / "streams" / "WordCount.java",
)
JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
TIMEOUT_S = 60


class Printed(NamedTuple):
    """A tool's exit status, -1 after a timeout, and its output."""

    status: int
    out: str
    err: str


class JavaTools:
    """Runs one tool at a time. The first one starts the JVM; after a timeout it is replaced."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def run(self, main_class: str, *arguments: str, given: str = "", timeout_s: int = TIMEOUT_S) -> Printed:
        """`given`: standard input. Errors: KafkaError when the JVM ended."""
        command = " ".join([str(timeout_s), *map(_encoded, (main_class, given, *arguments))])
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(command + "\n")
            process.stdin.flush()
            response = process.stdout.readline()
            if not response:
                self._end()
                raise kafka_io.KafkaError(f"the JVM ended during {main_class}")
            status, out, err = response.split(" ")
            if int(status) == -1:
                self._end()
        return Printed(int(status), _decoded(out), _decoded(err))

    def output(self, main_class: str, *arguments: str) -> str:
        """What a tool prints, as of `kafka_io.run_tool`. Errors: KafkaError."""
        printed = self.run(main_class, *arguments)
        if printed.status != 0:
            raise kafka_io.KafkaError(printed.out + printed.err)
        return printed.out

    def close(self) -> None:
        """End the JVM."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            jars = kafka_io.classpath()
            classes = kafka_io.compiled("oracle-tools", SOURCES, jars)
            command = ["java", *JVM, "-cp", f"{classes}:{jars}", "ToolShell"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


def _encoded(text: str) -> str:
    return "=" + base64.b64encode(text.encode()).decode()


def _decoded(part: str) -> str:
    return base64.b64decode(part.strip()[1:]).decode(errors="replace")
