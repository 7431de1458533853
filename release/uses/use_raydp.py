"""Spark 3.5 on Ray reads a topic and writes one; the rows become a Ray Dataset."""

import headrace
import ray
from own_ray import own_ray

with own_ray(3), headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("clicks"), headrace.NewTopic("copy")).raise_for_errors()
    with cluster.producer() as producer:
        producer.send_many("clicks", [b"%d" % number for number in range(100)]).raise_for_errors(timeout=60)
    with headrace.spark.session(num_executors=1, executor_cores=1, executor_memory="512m") as spark:
        df = headrace.spark.read(spark, bootstrap=cluster.bootstrap, subscribe="clicks", columns=["value"])
        assert headrace.spark.write(df, bootstrap=cluster.bootstrap, topic="copy").rows == 100
        assert ray.data.from_spark(df).count() == 100
    with cluster.consumer("copy", auto_offset_reset="earliest", iter_timeout=3.0) as consumer:
        assert len(list(consumer)) == 100
