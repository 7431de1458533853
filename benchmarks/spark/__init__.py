"""Spark and Ray Data over headrace, beside Spark's Kafka connector and `ray.data.read_kafka` over Kafka."""
