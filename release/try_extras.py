"""Installs a wheel with each extra into a fresh environment, and uses the extra: `make release-test`.

Each use is small, but the real thing: a table, a page, a span, a store. Needs the network or a package cache.
Extras that install gigabytes (`torch`, `raydp`, `spark`) are tried with --heavy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.common import ROOT, ReleaseError, environment, interpreters, run

HEAVY = ("raydp", "spark", "torch")
# Lists of packages for this repository, not for programs.
NOT_FOR_USERS = ("bench", "dev", "test")
_LOCAL = """
import headrace
with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t"))
    with cluster.producer() as producer:
        producer.send_many("t", [b"%d" % number for number in range(5)]).raise_for_errors(timeout=10)
"""
# What each extra is for, by its name; "" is the package without extras. Every line must work.
USES = {
    "": _LOCAL
    + "    with cluster.consumer('t', auto_offset_reset='earliest', iter_timeout=2.0) as consumer:\n"
    "        assert [r.value for r in consumer] == [b'0', b'1', b'2', b'3', b'4']\n",
    "arrow": _LOCAL + "    with cluster.consumer('t', auto_offset_reset='earliest') as consumer:\n"
    "        batch = next(iter(consumer.arrow_batches()))\n"
    "        assert batch.num_rows >= 1 and 'value' in batch.schema.names\n",
    "console": "import headrace.services.console\nimport jinja2, starlette, uvicorn, python_multipart\n",
    "http": "import starlette, uvicorn\nimport headrace.services.rest\n",
    "kafka": """
import headrace, socket, struct
with headrace.local(listeners="PLAINTEXT://127.0.0.1:0") as cluster:
    host, port = cluster.kafka_bootstrap.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as client:
        client.sendall(struct.pack(">ihhih", 10, 18, 0, 7, 0))
        size, number, error = struct.unpack(">iih", client.recv(10, socket.MSG_WAITALL))
        assert (number, error) == (7, 0) and size > 100
""",
    "kerberos": "import gssapi\nassert gssapi.Name('a@B')\n",
    "otel": "from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter\n"
    "from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter\n",
    "ray-data": "import headrace.clients.ray_data, pandas, pyarrow, fsspec\nimport ray.data\n",
    "security": "from headrace.services.certificates import *\nimport cryptography.x509, jwt\n",
    "snapshots": "import obstore.store\nassert obstore.store.MemoryStore()\n",
    "streams": """
from headrace import int64, stream, utf8
app = stream.App("count", key=utf8, value=utf8)
app.stream("in").group_by_key().count(store="counts").to_stream().to("out", value=int64)
with stream.TestDriver(app) as driver:
    driver.input_topic("in").pipe_value("x")
import rocksdict
""",
    "spark": "import headrace.spark, pyspark\n",
    "raydp": "import headrace.spark, raydp\n",
    "torch": "import torch, headrace\n",
}


def extras() -> list[str]:
    """The extras of the package, for programs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [name for name in project["optional-dependencies"] if name not in NOT_FOR_USERS]


def attempt(wheel: Path, python: Path, extra: str, folder: Path) -> float:
    """Install and use; gives the seconds. Errors: ReleaseError."""
    began = time.monotonic()
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    inside = environment(folder / (extra or "plain"), python, wanted)
    run(inside, "-m", "pip", "check")
    run(inside, "-c", USES[extra], cwd=folder, env={"RAY_AUTH_MODE": "disabled", "PYTHONPATH": ""})
    version = run(inside, "-m", "headrace", "version", cwd=folder, env={"PYTHONPATH": ""})
    if "compiled" not in version:
        raise ReleaseError(f"the codec is not compiled: {version}")
    return time.monotonic() - began


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default="3.11")
    parser.add_argument("--only", action="append")
    parser.add_argument("--heavy", action="store_true")
    given = parser.parse_args()
    names = given.only or ["", *(name for name in extras() if given.heavy or name not in HEAVY)]
    without_use = [name for name in extras() if name not in USES]
    if without_use:
        raise ReleaseError(f"release/try_extras.py has no use of {', '.join(without_use)}")
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="headrace-extra-") as folder:
            try:
                took = attempt(given.wheel.resolve(), interpreters()[given.python], name, Path(folder))
                print(f"{name or '(none)':12} ok, {took:.0f} s", flush=True)
            except ReleaseError as error:
                failed += 1
                print(f"{name or '(none)':12} FAILED: {error}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
