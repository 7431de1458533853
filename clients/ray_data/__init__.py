"""Topics as Ray Datasets and as shards of a training, and Datasets into topics: `headrace.ray_data`.

`read`, `write`, `stream` and `sharded` are for the driver. Names are imported at their first use, and Ray and
pyarrow with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from .reading_io import TopicDatasource as TopicDatasource
    from .reading_io import read as read
    from .sharding import Shards as Shards
    from .streaming_io import Stream as Stream
    from .streaming_io import stream as stream
    from .torch_io import TorchDataset as TorchDataset
    from .training_io import ShardIterator as ShardIterator
    from .training_io import sharded as sharded
    from .writing_io import TopicDatasink as TopicDatasink
    from .writing_io import write as write

_HOMES = {
    "ShardIterator": ".training_io",
    "Shards": ".sharding",
    "Stream": ".streaming_io",
    "TopicDatasink": ".writing_io",
    "TopicDatasource": ".reading_io",
    "TorchDataset": ".torch_io",
    "read": ".reading_io",
    "sharded": ".training_io",
    "stream": ".streaming_io",
    "write": ".writing_io",
}

_EXTRAS = {**dict.fromkeys(_HOMES.values(), "ray-data"), ".torch_io": "torch"}

__all__ = [
    "read", "write", "stream", "sharded", "Stream", "Shards", "ShardIterator", "TopicDatasource",
    "TopicDatasink",
]  # fmt: skip
# TorchDataset is not listed: it needs torch

__getattr__, __dir__ = lazy_names(__name__, _HOMES, extras=_EXTRAS)
