"""A stream that copies a topic, and a driver that is killed when the tasks of its second batch have written:
`python crashing.py BOOTSTRAP TOPIC CHECKPOINT`."""

import os
import signal
import sys
from typing import Any

import headrace
from headrace.clients.spark import writing_io


def copy_all(spark: Any, bootstrap: str, topic: str, checkpoint: str, done: list[int]) -> None:
    """Copy what is there; `done` gets the batches that were run to their end."""

    def copy(df: Any, batch: int) -> None:
        to = {"bootstrap": bootstrap, "topic": f"{topic}-copy"}
        assert headrace.spark.write_batch(df.select("value"), batch, query=topic, **to)
        done.append(batch)

    given = {"bootstrap": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    running = headrace.spark.stream(
        spark, copy, checkpoint=checkpoint, available_now=True, maxOffsetsPerTrigger=40, **given
    )
    running.awaitTermination()


def main(bootstrap: str, topic: str, checkpoint: str) -> None:
    done: list[int] = []
    of_tasks = writing_io._of_tasks

    def fatal(df: Any, work: Any) -> Any:
        messages = of_tasks(df, work)
        if done:
            os.kill(os.getpid(), signal.SIGKILL)
        return messages

    writing_io._of_tasks = fatal
    # a killed Spark leaves its files behind: beside the checkpoint they go with it
    configs = {"spark.driver.memory": "512m", "spark.local.dir": f"{checkpoint}/local"}
    with headrace.spark.session(master="local[1]", configs=configs) as spark:
        copy_all(spark, bootstrap, topic, checkpoint, done)


if __name__ == "__main__":
    main(*sys.argv[1:])
