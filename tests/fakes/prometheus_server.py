"""The real Prometheus, with its data in a temporary folder: it scrapes targets and evaluates rules."""

import contextlib
import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from waiting import wait_for

BINARY = shutil.which("prometheus")


class PrometheusServer:
    """A running Prometheus."""

    def __init__(self, port: int, log: Path) -> None:
        self._port, self._log = port, log

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query: `metric` and `value`."""
        return list(self._get("query", query=expression)["result"])

    def value(self, expression: str) -> float | None:
        """The only value; None without one."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def alerts(self, state: str = "firing") -> set[str]:
        """The names of alerts in this state."""
        return {
            each["labels"]["alertname"] for each in self._get("alerts")["alerts"] if each["state"] == state
        }

    def wait_for(self, expression: str, what: str) -> None:
        """Wait until the query has a result."""
        wait_for(lambda: self.query(expression), what, evidence=self.evidence)

    def evidence(self) -> str:
        """Targets and the end of the log."""
        targets = [(each["labels"], each["lastError"]) for each in self._get("targets")["activeTargets"]]
        return f"{targets}\n{self._log.read_text()[-2000:]}"

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5).close()
            return True
        return False

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]


@contextlib.contextmanager
def prometheus(
    folder: Path, jobs: dict[str, Sequence[str]], rules: Sequence[Path] = (), interval: str = "200ms"
) -> Iterator[PrometheusServer]:
    """A Prometheus that scrapes the URLs of each job, and evaluates the rules, each `interval`."""
    assert BINARY, "apt-get install prometheus"
    folder.mkdir(exist_ok=True)
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": name,
                "scheme": urllib.parse.urlsplit(urls[0]).scheme,
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [_target(url) for url in urls]}],
            }
            for name, urls in jobs.items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                BINARY,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=output,
            stderr=output,
        )
    server = PrometheusServer(port, log)
    try:
        wait_for(server.is_ready, "Prometheus is ready", evidence=log.read_text)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _target(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc
