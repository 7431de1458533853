"""Shared parts of the examples: a demo cluster with topics, and reading results until they are complete."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import headrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS = 3
PATIENCE_S = 120.0


@contextmanager
def cluster(*topics: str) -> Iterator[headrace.LocalCluster]:
    """A cluster in this process, with these topics. Records of old events are kept: no retention."""
    with headrace.local() as running:
        made = (headrace.NewTopic(name, PARTITIONS, configs={"retention.ms": "-1"}) for name in topics)
        running.admin().create_topics(*made).raise_for_errors()
        yield running


class Running(NamedTuple):
    """A cluster, and an instance of an application on it."""

    cluster: headrace.LocalCluster
    instance: Any


@contextmanager
def run(app: headrace.stream.App, cluster: headrace.LocalCluster) -> Iterator[Running]:
    """The application, in threads of this process. A program of its own calls `app.run(bootstrap)`.

    The stores of a demo are not kept: state.dir is a temporary folder.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        app.instance(cluster.bootstrap, config={"state.dir": folder}) as instance,
    ):
        yield Running(cluster, instance)


def read(
    running: Running, topic: str, is_complete: Callable[[list[Any]], object], **serdes: Any
) -> list[Any]:
    """The records of a topic, once they are complete. Errors: that of the application, TimeoutError."""
    found: list[Any] = []
    ends_at = time.monotonic() + PATIENCE_S
    with running.cluster.consumer(topic, auto_offset_reset="earliest", **serdes) as consumer:
        while not is_complete(found):
            if running.instance.error is not None:
                raise running.instance.error
            if time.monotonic() > ends_at:
                raise TimeoutError(f"{topic} is not complete after {PATIENCE_S:.0f} s: {found[-10:]}")
            found += consumer.poll(timeout=0.5)
    return found
