"""Whether an application starts with its topology, and at which topology epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace import utf8
from headrace.clients.admin.group_types import GroupState
from headrace.clients.admin.streams_groups import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTasks,
)
from headrace.stream import App
from headrace.stream.errors import IncompatibleTopologyError
from headrace.stream.worker.instance_io import AppInstance
from stream_clients import FakeStreamsCluster

if TYPE_CHECKING:
    from pathlib import Path

MEMBER = StreamsMemberDescription("m", 1, "c", "h", None, "p", 0, None, {}, StreamsTasks(), StreamsTasks())


def epoch_of(
    folder: Path, *stores: str, source: str = "words", members: int = 0, epoch: int = 4, allow: bool = False
) -> int:
    """The epoch at which an application joins that counts words, where its group had these stores."""
    app = App("app", key=utf8, value=utf8, state_dir=str(folder), allow_topology_change=allow)
    app.stream("words").group_by_key().count(store="counts")
    cluster = FakeStreamsCluster(words=2, other=2)
    changelogs = {f"app-{name}-changelog": 2 for name in stores}
    if not members:  # with members, the coordinator may still be creating them
        cluster.partitions.update(changelogs)
    before = StreamsSubtopology("0", (source,), (), {}, changelogs)
    cluster.group = StreamsGroupDescription(
        "app", GroupState.STABLE, 1, 3, 3, epoch, (before,), (MEMBER,) * members
    )
    instance = AppInstance(
        app.topology(), app.config, app.settings, clients=cluster, open_engine=lambda _folder, _store: None
    )
    try:
        return instance.prepare().group_topology.epoch
    finally:
        instance.close()


def test_the_same_topology_has_the_epoch_of_the_group(tmp_path: Path) -> None:
    """With and without members."""
    assert epoch_of(tmp_path, "counts") == epoch_of(tmp_path, "counts", members=2) == 4


def test_a_rolling_change_has_the_next_epoch(tmp_path: Path) -> None:
    """One more store, and a store that is gone."""
    assert epoch_of(tmp_path, members=2) == 5
    assert epoch_of(tmp_path, "counts", "last", members=2) == 5


def test_other_inputs_need_a_stop(tmp_path: Path) -> None:
    """Also with allow.topology.change: tasks are shared with members that read other topics."""
    assert epoch_of(tmp_path, "counts", source="other") == 5
    for allow in (False, True):
        with pytest.raises(IncompatibleTopologyError, match="Stop its 2 running threads"):
            epoch_of(tmp_path, "counts", source="other", members=2, allow=allow)


def test_a_loss_is_refused_with_its_ways_out(tmp_path: Path) -> None:
    """The stores by name, and what accepts the loss."""
    app = App("app", key=utf8, value=utf8, state_dir=str(tmp_path))
    app.stream("words").group_by_key().count()
    cluster = FakeStreamsCluster(words=2)
    changelogs = {"app-KSTREAM-AGGREGATE-STATE-STORE-0000000009-changelog": 2}
    before = StreamsSubtopology("0", ("words",), (), {}, changelogs)
    cluster.group = StreamsGroupDescription("app", GroupState.EMPTY, 1, 3, 3, 0, (before,), ())
    for exists, allow in ((True, False), (True, True), (False, False)):
        if exists:
            cluster.partitions.update(changelogs)
        else:  # the application was reset
            del cluster.partitions[next(iter(changelogs))]
        config = app.config.merged({"allow.topology.change": allow})
        instance = AppInstance(
            app.topology(), config, app.settings, clients=cluster, open_engine=lambda _folder, _store: None
        )
        try:
            if allow or not exists:
                assert instance.prepare().group_topology.epoch == 1
            else:
                with pytest.raises(IncompatibleTopologyError) as caught:
                    instance.prepare()
                assert "STORE-0000000009 is now KSTREAM-AGGREGATE-STATE-STORE-0000000001" in str(caught.value)
                assert "headrace stream reset app" in str(caught.value)
                assert "allow.topology.change=true" in str(caught.value)
        finally:
            instance.close()
