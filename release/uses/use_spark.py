"""PySpark 4 writes a topic, and reads it in a batch and in a stream."""

import os
import tempfile

import headrace

os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
# A task has eight attempts: Spark's workers have ten seconds to start, too few on a busy machine.
configs = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
with headrace.local() as cluster, headrace.spark.session(master="local[2,8]", configs=configs) as spark:
    headrace.spark.register(spark)
    topics = headrace.NewTopic("clicks", 2), headrace.NewTopic("copy")
    cluster.admin().create_topics(*topics).raise_for_errors()
    at = {"kafka.bootstrap.servers": cluster.bootstrap}
    clicks = spark.range(100).selectExpr("cast(id as string) as value")
    clicks.write.format("headrace").options(**at, topic="clicks").mode("append").save()
    assert spark.read.format("headrace").options(**at, subscribe="clicks").load().count() == 100
    stream = spark.readStream.format("headrace").options(**at, subscribe="clicks", startingOffsets="earliest")
    copied = stream.load().select("value").writeStream.format("headrace").options(**at, topic="copy")
    with tempfile.TemporaryDirectory() as folder:
        copied.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()
    with cluster.consumer("copy", auto_offset_reset="earliest", iter_timeout=3.0) as consumer:
        assert sorted(int(record.value) for record in consumer) == list(range(100))
