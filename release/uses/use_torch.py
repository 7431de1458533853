"""Rows of a topic reach a DataLoader as tensors."""

import headrace
from headrace import ray_data
from torch.utils.data import DataLoader

with headrace.local() as cluster:
    cluster.admin().create_topics(headrace.NewTopic("t")).raise_for_errors()
    with cluster.producer() as producer:
        producer.send_many("t", [b"%04d" % number for number in range(20)]).raise_for_errors(timeout=60)
    shards = ray_data.sharded("t", bootstrap_servers=cluster.bootstrap)
    iterator = ray_data.ShardIterator(
        shards, rank=0, world_size=1, batch_size=10, batch_format="torch", columns=["value", "offset"]
    )
    batches = DataLoader(ray_data.TorchDataset(iterator), batch_size=None)
    offsets = [offset for batch in batches for offset in batch["offset"].tolist()]
    assert sorted(offsets) == list(range(20)), offsets
