"""A Dataset is written to a topic, and read from it."""

import headrace
import pyarrow
import ray
from headrace import ray_data
from own_ray import own_ray

with own_ray(2), headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("views", 2)).raise_for_errors()
    views = ray.data.from_arrow(pyarrow.table({"value": [f"page {number}" for number in range(100)]}))
    assert ray_data.write(views, "views", bootstrap_servers=cluster.bootstrap).rows == 100
    found = ray_data.read("views", columns=["value"], bootstrap_servers=cluster.bootstrap)
    assert sorted(found.take_all(), key=str)[0]["value"] == b"page 0"
    assert found.count() == 100
