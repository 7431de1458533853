"""A topic through Spark on Ray, by RayDP, and as a Ray Dataset: a program, for a process has one Spark.

`python on_ray.py BOOTSTRAP TOPIC TEMP_DIR` prints what it found as JSON.
"""

import faulthandler
import json
import sys
from typing import Any

import headrace
import ray
from headrace.protocol.errors import ConfigError

LIMIT_S = 450.0  # what hangs ends then, and prints where


def main(bootstrap: str, topic: str, temp_dir: str) -> dict[str, Any]:
    ray.init(num_cpus=3, _temp_dir=temp_dir, include_dashboard=False, log_to_driver=False)
    here = ray.util.get_node_ip_address()
    try:
        with headrace.spark.session(hosts=["192.0.2.1"]):
            raise AssertionError("there is no such node")
    except ConfigError as error:
        refused = str(error)
    with headrace.spark.session(
        "on-ray", num_executors=1, executor_cores=2, executor_memory="512m", hosts=[here]
    ) as spark:
        spark.sparkContext.setLogLevel("OFF")
        df = headrace.spark.read(spark, bootstrap=bootstrap, subscribe=topic, columns=["value", "partition"])
        report = headrace.spark.write(df.select("value"), bootstrap=bootstrap, topic=f"{topic}-copy")
        dataset = ray.data.from_spark(df)
        back = dataset.map(lambda row: {"n": int(row["value"])}).to_spark(spark)
        total = back.groupBy().sum("n").collect()[0][0]
        found = {"rows": df.count(), "written": report.rows, "dataset": dataset.count(), "sum": total}
    ray.shutdown()
    return {**found, "refused": refused, "here": here}


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    sys.stdout.write(f"{json.dumps(main(*sys.argv[1:]))}\n")
